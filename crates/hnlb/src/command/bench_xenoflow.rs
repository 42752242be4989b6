//! `hnlb bench xenoflow`: the figures of the XenoFlow paper.
use crate::CommandResult;
use crate::cli::BenchXenoflowArgs;

pub(crate) fn run(_args: &BenchXenoflowArgs) -> CommandResult {
    Err("to come".into())
}
