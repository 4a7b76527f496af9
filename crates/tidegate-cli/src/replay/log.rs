//! Options for reading a log, from the arguments.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use tidegate_replay::logs::{ClientKey, CostSource, Filters, FormatChoice, LogSource, ReadOptions};

use crate::arguments::{LogArguments, LogFormat};

pub(crate) fn read_options(arguments: &LogArguments) -> anyhow::Result<ReadOptions> {
    let source = |path: &PathBuf| if path == Path::new("-") { LogSource::Stdin } else { LogSource::File(path.clone()) };
    let time = arguments.time_field.clone();
    let format = match (&arguments.log_format, arguments.input) {
        (Some(text), _) => FormatChoice::Template(text.clone()),
        (None, LogFormat::Auto) if time.is_some() => FormatChoice::Json { time },
        (None, LogFormat::Auto) => FormatChoice::Auto,
        (None, LogFormat::Common | LogFormat::Combined) => FormatChoice::AccessLog,
        (None, LogFormat::Json) => FormatChoice::Json { time },
        (None, LogFormat::Csv) => FormatChoice::Csv,
    };
    Ok(ReadOptions {
        sources: arguments.files.iter().map(source).collect(),
        format,
        client_key: client_key(arguments)?,
        cost: cost(&arguments.cost)?,
        duration: arguments.duration.clone(),
        group: None,
        filters: Filters::new(arguments.only.clone(), arguments.skip.clone())?,
        sort: arguments.sort,
        spread: arguments.spread.then_some(arguments.seed),
    })
}

fn client_key(arguments: &LogArguments) -> anyhow::Result<Option<ClientKey>> {
    let joined = arguments.by.iter().cloned().reduce(ClientKey::and);
    let default = || (arguments.ipv6_prefix != 64).then(ClientKey::ip);
    Ok(joined.or_else(default).map(|key| key.with_ipv6_prefix(arguments.ipv6_prefix)).transpose()?)
}

fn cost(texts: &[String]) -> anyhow::Result<Option<CostSource>> {
    if let [text] = texts
        && let Some(path) = text.strip_prefix("table:")
    {
        let table = fs::read_to_string(path).with_context(|| format!("the table {path} can't be read"))?;
        return Ok(Some(CostSource::table(&table)?));
    }
    if texts.is_empty() { Ok(None) } else { Ok(Some(CostSource::parse_all(texts)?)) }
}
