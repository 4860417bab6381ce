//! Every parameter of every workload, out of its range; and parameters that do not fit together.
#![allow(clippy::unwrap_used, reason = "tests")]

use fsage_workload::{
    InputPath, Inputs, Parameter, SourceTree, Text, Unit, Value, WORKLOADS, WorkloadSpec,
};

/// What is written for a parameter and must be refused.
fn bad(parameter: &Parameter) -> Vec<String> {
    let (low, high) = parameter.range;
    let (below, above) = (i128::from(low) - 1, i128::from(high) + 1);
    let outside = [below.to_string(), above.to_string()];
    let mut bad: Vec<String> = match parameter.unit {
        Unit::Count | Unit::Bytes | Unit::Bias | Unit::Percent => outside.to_vec(),
        Unit::Time => [below, above].map(|ns| format!("{ns}ns")).to_vec(),
        Unit::ByteRange => vec![
            format!("{below}-{low}"),
            format!("{low}-{above}"),
            format!("{}-{low}", low + 1),
            "1-".into(),
            "-".into(),
        ],
        Unit::Seed => vec!["-1".into(), (i128::from(u64::MAX) + 1).to_string()],
        Unit::Switch | Unit::Choice(_) => vec!["maybe".into()],
        Unit::Text | Unit::Path | Unit::Variables => return Vec::new(),
    };
    bad.extend(
        [
            "x",
            "",
            "1e3",
            "0x10",
            "99999999999999999999999",
            "1 2",
            "NaN",
        ]
        .map(Into::into),
    );
    // What a time may be and a number may not.
    if parameter.unit == Unit::Time {
        bad.retain(|text| text != "1e3");
    }
    bad
}

#[test]
fn every_parameter_out_of_range_is_named_with_its_range() {
    let mut tried = 0;
    for workload in WORKLOADS {
        for parameter in workload.parameters {
            for text in bad(parameter) {
                let spec = format!("{}:{}={text}", workload.name, parameter.name);
                let error = spec.parse::<WorkloadSpec>().unwrap_err().to_string();
                tried += 1;
                for word in [
                    format!("'{}'", parameter.name),
                    format!("workload '{}'", workload.name),
                    format!("'{}'", text.trim()),
                    fsage_workload::spec::expected(parameter),
                ] {
                    assert!(
                        error.contains(&word),
                        "{spec}: `{word}` is missing: {error}"
                    );
                }
            }
        }
    }
    assert!(tried > 1000, "{tried}");
}

/// The ends of a range are in it, and the default is.
#[test]
fn every_parameter_takes_its_ends() {
    for workload in WORKLOADS {
        for parameter in workload.parameters {
            let (low, high) = parameter.range;
            let texts = match parameter.unit {
                Unit::Count | Unit::Bytes | Unit::Bias | Unit::Percent => {
                    vec![
                        low.to_string(),
                        high.to_string(),
                        parameter.default.to_string(),
                    ]
                }
                Unit::ByteRange => vec![format!("{low}-{high}"), parameter.default.to_string()],
                Unit::Seed => vec!["0".into(), u64::MAX.to_string()],
                Unit::Switch => vec!["true".into(), "off".into()],
                Unit::Choice(words) => words.iter().map(|&word| word.into()).collect(),
                Unit::Time => vec![format!("{low}ns"), parameter.default.to_string() + "ns"],
                Unit::Text | Unit::Path | Unit::Variables => Vec::new(),
            };
            for text in texts {
                let spec = format!("{}:{}={text}", workload.name, parameter.name);
                let parsed: WorkloadSpec = spec.parse().unwrap();
                let again: WorkloadSpec = parsed.to_string().parse().unwrap();
                assert_eq!(parsed, again, "{spec}");
            }
            let is_set = !matches!(&parameter.default, Value::Text(text) if text.is_empty());
            assert!(is_set || matches!(parameter.unit, Unit::Path | Unit::Variables | Unit::Text));
        }
    }
}

#[test]
fn what_does_not_fit_together_is_reported() {
    for (spec, words) in [
        ("postmark:files=2,threads=3", ["2 files", "3 threads"]),
        (
            "postmark:size=1-1G,write=1,buffering=no",
            ["1073741824 bytes", "requests"],
        ),
        (
            "lfs-large:size=1G,request=1",
            ["requests of 1", "expected at most"],
        ),
        ("bonnie:size=4k,chunk=8k", ["smaller than a chunk", "8192"]),
        (
            "seqio:size=1k-1M,total=512k",
            ["1048576 bytes", "total of 524288"],
        ),
        ("readers:total=10,n=11", ["10 bytes", "11 readers"]),
        (
            "stride:size=100k,s=3",
            ["not a multiple of 3", "8192 bytes"],
        ),
        (
            "selfscale:size=8k,processes=64",
            ["64 processes", "expected at least"],
        ),
        (
            "selfscale:size=1M,request=2M",
            ["1048576 bytes", "a request of 2097152"],
        ),
        ("andrew:tree=/empty", ["/empty", "holds no file"]),
        ("filerunner", ["no file is given", "filerunner:FILE"]),
        ("hot-files", ["no file with data", "aged or restored"]),
        ("wml", ["no script is given", "varmail"]),
        (
            "wml:mine.f,frob=1",
            ["mine.f: line 1", "no variable 'frob'"],
        ),
        (
            "varmail:nfiles=10000000,meandirwidth=2",
            ["fileset", "directories"],
        ),
    ] {
        let parsed: WorkloadSpec = spec.parse().unwrap();
        let mut inputs = Inputs::default();
        for need in parsed.needs() {
            match need {
                InputPath::Target { .. } => inputs.files = Some(Vec::new()),
                InputPath::Tree(_) => inputs.tree = Some(SourceTree::default()),
                InputPath::Text(path) => {
                    inputs.text = Some(Text {
                        name: path.display().to_string(),
                        content: "set $nfiles=1\n".to_owned(),
                    });
                }
            }
        }
        let error = parsed.program(&inputs).unwrap_err();
        let said = error.to_string();
        assert!(
            said.contains(&format!("'{}'", parsed.short_name())),
            "{said}"
        );
        for word in words {
            assert!(said.contains(word), "{spec}: `{word}` is missing: {said}");
        }
    }
}

#[test]
fn a_file_of_too_many_requests_is_refused() {
    for spec in [
        "lfs-small:size=1G,request=1",
        "small-read:size=0-1G,request=1",
        "bonnie:size=1M,chunk=1,file-size=1G",
    ] {
        let parsed: WorkloadSpec = spec.parse().unwrap();
        let said = parsed.program(&Inputs::default()).unwrap_err().to_string();
        assert!(
            said.contains("1073741824 bytes") && said.contains("expected at most 1048576"),
            "{said}"
        );
    }
}
