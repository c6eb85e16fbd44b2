//! Frames.
#![forbid(unsafe_code)]

use curtail_sweep::inside::{self, Check};
use curtail_sweep::{Outcome, must, text};
use polars::prelude::*;
use std::process::ExitCode;

fn frames() -> PolarsResult<(String, usize)> {
    let numbers: Vec<i64> = (0..400).collect();
    let groups: Vec<i64> = numbers.iter().map(|n| n % 7).collect();
    let names: Vec<String> = numbers.iter().map(|n| format!("name {}", n % 5)).collect();
    let frame = df!("n" => numbers, "group" => groups, "name" => names)?;
    let weights = df!("group" => [1_i64, 3, 5], "weight" => [10_i64, 20, 30])?;
    let joined = frame.lazy().filter(col("n").gt(lit(50))).join(
        weights.lazy(),
        [col("group")],
        [col("group")],
        JoinArgs::new(JoinType::Inner),
    );
    let sums = joined
        .group_by([col("name")])
        .agg([(col("n") * col("weight")).sum().alias("sum"), col("n").max().alias("most")])
        .sort(["name"], SortMultipleOptions::default())
        .collect()?;
    let text = (0..sums.height()).map(|row| format!("{:?}", sums.get(row))).collect();
    Ok((text, sums.height()))
}

fn polars() -> Outcome {
    let (found, rows) = frames().map_err(text)?;
    must!(rows == 5, "{rows} rows");
    Ok(found)
}

fn main() -> ExitCode {
    inside::main(&[Check::new("polars", polars)])
}
