//! What the arguments say about reading a log.

use std::{fs, path::Path, time::Duration};

use anyhow::Context as _;
use tidegate::parse_duration;
use tidegate_replay::logs::{By, FormatChoice, Input, Price, Reading};

use crate::arguments::{LogArguments, LogFormat};

pub(crate) fn reading(arguments: &LogArguments) -> anyhow::Result<Reading> {
    let input =
        |path: &std::path::PathBuf| if path == Path::new("-") { Input::Stdin } else { Input::File(path.clone()) };
    let time = arguments.time_field.clone();
    let format = match (&arguments.log_format, arguments.input) {
        (Some(text), _) => FormatChoice::Template(text.clone()),
        (None, LogFormat::Auto) if time.is_some() => FormatChoice::Json { time },
        (None, LogFormat::Auto) => FormatChoice::Auto,
        (None, LogFormat::Common | LogFormat::Combined) => FormatChoice::AccessLog,
        (None, LogFormat::Json) => FormatChoice::Json { time },
        (None, LogFormat::Csv) => FormatChoice::Csv,
    };
    Ok(Reading {
        inputs: arguments.files.iter().map(input).collect(),
        format,
        by: by(arguments)?,
        price: price(&arguments.cost)?,
        sort: arguments.sort.as_deref().map(span).transpose()?,
        spread: arguments.spread.then_some(arguments.seed),
    })
}

fn span(text: &str) -> anyhow::Result<Duration> {
    parse_duration(text).with_context(|| format!("`{text}` is no span of time: write 10s, 1m or 1h30m"))
}

fn by(arguments: &LogArguments) -> anyhow::Result<Option<By>> {
    let parts = arguments.by.iter().map(|text| text.parse::<By>()).collect::<Result<Vec<_>, _>>()?;
    let joined = parts.into_iter().reduce(By::and);
    let unsaid = || (arguments.ipv6_prefix != 64).then(By::ip);
    Ok(joined.or_else(unsaid).map(|by| by.with_ipv6_prefix(arguments.ipv6_prefix)).transpose()?)
}

fn price(texts: &[String]) -> anyhow::Result<Option<Price>> {
    if let [text] = texts
        && let Some(path) = text.strip_prefix("table:")
    {
        let table = fs::read_to_string(path).with_context(|| format!("the table {path} can't be read"))?;
        return Ok(Some(Price::table(&table)?));
    }
    if texts.is_empty() { Ok(None) } else { Ok(Some(Price::several(texts)?)) }
}
