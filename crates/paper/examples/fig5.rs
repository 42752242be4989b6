//! Prints the rows of a figure as JSON lines: `fig5 [figure] [--quick]
//! [--repetitions n] [--system name] [--alone]`.
use paper::{Figure, Options, System, Testbed};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = arguments.first().and_then(|first| first.parse().ok()).unwrap_or(5);
    let figure = Figure::ALL.into_iter().find(|f| f.number() == number).ok_or("no such figure")?;
    let at = arguments.iter().position(|word| word == "--repetitions");
    let repetitions = at.and_then(|at| arguments.get(at + 1)).map_or(Ok(3), |n| n.parse())?;
    let quick = arguments.iter().any(|word| word == "--quick");
    let at = arguments.iter().position(|word| word == "--system");
    let only = at.and_then(|at| arguments.get(at + 1));
    let systems =
        System::ALL.into_iter().filter(|s| only.is_none_or(|name| name == s.name())).collect();
    let alone = arguments.iter().any(|word| word == "--alone");
    let options = Options { quick, repetitions, systems, alone, ..Options::default() };
    let mut testbed = Testbed::start()?;
    for row in testbed.run(figure, &options)? {
        println!("{}", serde_json::to_string(&row)?);
    }
    Ok(())
}
