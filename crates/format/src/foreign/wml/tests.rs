#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;

use proptest::prelude::*;

use super::{Assigned, Command, Operator, QuitMode, Value, parse};

fn read(text: &str) -> Result<Vec<Command>, String> {
    parse(text.as_bytes(), Path::new("some.f"))
        .map(|script| script.statements.into_iter().map(|s| s.command).collect())
        .map_err(|e| e.to_string())
}

const SCRIPT: &str = r#"
# a comment with "quotes and $signs
set $dir=/tmp
set $nfiles = 10 * 2 + $more
set $filesize=cvar(type=cvar-gamma,parameters=mean:16384;gamma:1.5)
set $io.type=uniform
set mode quit firstdone
define randvar name=$size, type=tabular, min=1k, randtable =
{{ 80, 1k, 4k},
 { 20, 4k, 16k}}
eventgen rate = $rate
define fileset
name=bigfileset,path=$dir,filesize=$filesize,entries=$nfiles,prealloc=80,readonly
define file name=log,path=$dir,size=1m,prealloc
define flowop name=both, $set, $times=3 {
  flowop openfile name=open1,filesetname=$set,fd=1
  flowop closefile name=close1, fd=1
}
define process name=reader,instances=${n}
{
  thread name=t,memsize=10m
  {
    flowop both name=both1, iters=$times, $set=bigfileset
    flowop opslimit
    flowop read name=read1,filename=log,iosize=-1
  }
}
echo "a
text with \"quotes\""
usage "    set \$n=<value>"
stats snap
run 60
psrun -10 $secs
quit
"#;

#[test]
fn a_whole_script() {
    let commands = read(SCRIPT).unwrap();
    assert_eq!(commands.len(), 17);
    assert_eq!(
        commands[1],
        Command::Set {
            name: "nfiles".to_owned(),
            value: Assigned::Value(Value::Sum(
                Box::new(Value::Int(10)),
                vec![
                    (Operator::Times, Value::Int(2)),
                    (Operator::Plus, Value::Var("more".to_owned()))
                ]
            )),
        }
    );
    let Command::Set {
        value: Assigned::Cvar(cvar),
        ..
    } = &commands[2]
    else {
        panic!("{:?}", commands[2]);
    };
    assert_eq!(
        cvar[1].value,
        Some(Value::Text("mean:16384;gamma:1.5".to_owned()))
    );
    assert_eq!(commands[4], Command::Mode(QuitMode::FirstDone));
    let Command::Set {
        name,
        value: Assigned::Randvar(randvar),
    } = &commands[5]
    else {
        panic!("{:?}", commands[5]);
    };
    assert_eq!((name.as_str(), randvar.len()), ("size", 3));
    let Command::Fileset { attributes, .. } = &commands[7] else {
        panic!("{:?}", commands[7]);
    };
    assert!(attributes.iter().any(|a| a.name == "size"));
    let Command::Process { threads, .. } = &commands[10] else {
        panic!("{:?}", commands[10]);
    };
    assert_eq!(threads[0].body.len(), 3);
    assert_eq!(threads[0].body[2].line, 25);
    assert_eq!(commands[14], Command::Run(Some(Value::Int(60))));
    assert_eq!(
        commands[15],
        Command::Run(Some(Value::Var("secs".to_owned())))
    );
}

#[test]
fn errors_name_file_line_and_name() {
    for (text, line, said) in [
        ("set $a=1\n\nfrobnicate 3", 3, "'frobnicate'"),
        ("define fileset name=a,\n entrees=3", 2, "'entrees'"),
        ("define posset name=a", 1, "posset"),
        ("\nsystem \"rm -rf /\"", 2, "'system' is refused"),
        ("set $a=", 1, "the end of the file, expected a value"),
        ("set $a=99999999999999999999", 1, "out of range"),
        ("set $a=9999999999999999m", 1, "out of range"),
        ("echo \"never ends\n\n", 1, "never ends"),
        ("set $a=1\n\u{1b}", 2, "0x1b"),
        (
            "define process name=p {\n thread name=t {\n  flow read\n }\n}",
            3,
            "'flow'",
        ),
        (
            "define process name=p {\n thread name=t {\n  flowop read iosise=3\n }\n}",
            3,
            "'iosise'",
        ),
        (
            "define process name=p,name=q",
            1,
            "'name' of define process is given twice",
        ),
        ("set ${a=3", 1, "'}'"),
        ("set mode fast", 1, "'fast', expected quit"),
        ("define randvar type=gamma", 1, "without name=$variable"),
        ("enable multi", 1, "several clients"),
        ("set $a.colour=red", 1, "'colour' of randvar"),
    ] {
        let error = read(text).unwrap_err();
        assert!(
            error.contains(&format!("some.f: line {line}: ")),
            "{text:?}: {error}"
        );
        assert!(error.contains(said), "{text:?}: {error}");
        assert!(error.len() < 400, "{error}");
    }
}

proptest! {
    /// Damaged scripts and noise: a script or an error that names the file and a line of it.
    #[test]
    fn any_bytes(
        cuts in proptest::collection::vec((0_usize..2000, 0_usize..40, proptest::collection::vec(any::<u8>(), 0..6)), 0..8),
        noise in proptest::collection::vec(any::<u8>(), 0..200),
        whole in any::<bool>(),
    ) {
        let mut bytes = if whole { SCRIPT.as_bytes().to_vec() } else { noise };
        for (at, length, new) in cuts {
            let at = at.min(bytes.len());
            let end = (at + length).min(bytes.len());
            bytes.splice(at..end, new);
        }
        let lines = bytes.split(|b| *b == b'\n').count();
        if let Err(error) = parse(&bytes, Path::new("some.f")) {
            let error = error.to_string();
            let line: usize = error
                .strip_prefix("read some.f: line ").unwrap()
                .split(':').next().unwrap()
                .parse().unwrap();
            prop_assert!((1..=lines).contains(&line), "{error}");
        }
    }
}
