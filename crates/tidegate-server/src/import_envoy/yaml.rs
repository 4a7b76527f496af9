//! The file format of envoyproxy/ratelimit.

use serde::{Deserialize, Deserializer, de};

/// A file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DomainFile {
    pub(super) domain: Text,
    #[serde(default, deserialize_with = "list_or_null")]
    pub(super) descriptors: Vec<Descriptor>,
}

/// A descriptor and its children.
#[derive(Debug, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "the file format has them")]
#[serde(deny_unknown_fields)]
pub(super) struct Descriptor {
    pub(super) key: Text,
    #[serde(default)]
    pub(super) value: Text,
    pub(super) rate_limit: Option<RateLimit>,
    #[serde(default, deserialize_with = "list_or_null")]
    pub(super) descriptors: Vec<Descriptor>,
    #[serde(default)]
    pub(super) shadow_mode: bool,
    #[serde(default)]
    pub(super) detailed_metric: bool,
    #[serde(default)]
    pub(super) value_to_metric: bool,
    #[serde(default)]
    pub(super) quota_mode: bool,
    #[serde(default)]
    pub(super) share_threshold: bool,
}

/// The limit of a descriptor.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RateLimit {
    #[serde(default)]
    pub(super) unit: Text,
    #[serde(default)]
    pub(super) requests_per_unit: u32,
    #[serde(default)]
    pub(super) unlimited: bool,
    #[serde(default)]
    pub(super) name: Text,
    #[serde(default, deserialize_with = "list_or_null")]
    pub(super) replaces: Vec<Replaced>,
}

/// The name of a limit that another one replaces.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Replaced {
    pub(super) name: Text,
}

/// A string. An unquoted number or boolean is accepted as its text.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Text(pub(super) String);

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        struct TextVisitor;
        impl de::Visitor<'_> for TextVisitor {
            type Value = Text;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a string, in quotes if it looks like another type")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Text, E> {
                Ok(Text(text.to_owned()))
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Text, E> {
                Ok(Text(number.to_string()))
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Text, E> {
                Ok(Text(number.to_string()))
            }

            fn visit_bool<E: de::Error>(self, value: bool) -> Result<Text, E> {
                Ok(Text(value.to_string()))
            }

            fn visit_unit<E: de::Error>(self) -> Result<Text, E> {
                Ok(Text::default())
            }
        }
        source.deserialize_any(TextVisitor)
    }
}

/// Reads a list. A key without a value is an empty list.
fn list_or_null<'de, D: Deserializer<'de>, T: Deserialize<'de>>(source: D) -> Result<Vec<T>, D::Error> {
    Ok(Option::deserialize(source)?.unwrap_or_default())
}

/// Reads a file.
pub(super) fn read(yaml: &str) -> Result<DomainFile, String> {
    let file: DomainFile = serde_norway::from_str(yaml).map_err(|error| error.to_string())?;
    if file.domain.0.is_empty() {
        return Err("`domain` is empty: use the domain that Envoy sends".to_owned());
    }
    Ok(file)
}
