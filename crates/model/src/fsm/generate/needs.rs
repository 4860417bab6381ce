//! What must be open for what can follow: who copies does not open what he reads before what he writes.

use fsage_core::OpKind;

use super::super::classes::Classes;
use super::super::model::{Line, Model, Part, Pick};
use super::super::resolve::KEPT;

/// For each line of a part the classes of which a process must have a file open before it, because the line itself or all
/// that can come of it is done to an open one, until a line opens one (very busy expressions; Nielson, Nielson and Hankin
/// 1999).
pub(super) fn needs(model: &Model, part: &Part) -> Vec<Classes> {
    let own = |line: &Line| match line.file.pick {
        Pick::Open => Classes::of(line.file.class),
        _ => Classes::default(),
    };
    let opened = |line: &Line| {
        if leaves_open(model, line) {
            Classes::of(line.file.class)
        } else {
            Classes::default()
        }
    };
    let script = &part.script;
    let effects: Vec<(Classes, Classes)> = script.iter().map(|l| (own(l), opened(l))).collect();
    let mut needs = vec![Classes::ALL; script.len()];
    loop {
        let mut more = false;
        for (i, (line, &(own, opened))) in script.iter().zip(&effects).enumerate() {
            let of = |&(next, _): &(u64, u64)| {
                let at = (next as usize).checked_sub(1);
                at.and_then(|at| needs.get(at)).copied().unwrap_or_default()
            };
            let later = line.next.0.iter().map(of).reduce(Classes::and);
            let new = own.or(later.unwrap_or_default().without(opened));
            if let Some(need) = needs.get_mut(i).filter(|need| **need != new) {
                (*need, more) = (new, true);
            }
        }
        if !more {
            return needs;
        }
    }
}

/// Whether a file is open after a visit that was not before it.
fn leaves_open(model: &Model, line: &Line) -> bool {
    let steps = model.visit(line).map_or(&[][..], |visit| &visit.steps);
    let open = steps.iter().fold(0_i64, |open, step| match step.form.kind {
        OpKind::Open if step.form.error == 0 => open + 1,
        OpKind::Close if step.form.flags & KEPT == 0 => open - 1,
        _ => open,
    });
    open > 0
}
