//! The file as envoyproxy/ratelimit has it.

use serde::{Deserialize, Deserializer, de};

/// A whole file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Root {
    pub(super) domain: Text,
    #[serde(default, deserialize_with = "or_none")]
    pub(super) descriptors: Vec<Node>,
}

/// One descriptor, and those below it.
#[derive(Debug, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "the file has them")]
#[serde(deny_unknown_fields)]
pub(super) struct Node {
    pub(super) key: Text,
    #[serde(default)]
    pub(super) value: Text,
    pub(super) rate_limit: Option<RateLimit>,
    #[serde(default, deserialize_with = "or_none")]
    pub(super) descriptors: Vec<Node>,
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

/// What a descriptor is limited to.
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
    #[serde(default, deserialize_with = "or_none")]
    pub(super) replaces: Vec<Replaced>,
}

/// A limit that another one replaces.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Replaced {
    pub(super) name: Text,
}

/// A text, also where it looks like a number and has no quotes.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Text(pub(super) String);

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        struct Plain;
        impl de::Visitor<'_> for Plain {
            type Value = Text;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a text, in quotes if it looks like something else")
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

            fn visit_bool<E: de::Error>(self, truth: bool) -> Result<Text, E> {
                Ok(Text(truth.to_string()))
            }

            fn visit_unit<E: de::Error>(self) -> Result<Text, E> {
                Ok(Text::default())
            }
        }
        source.deserialize_any(Plain)
    }
}

/// A list, or nothing after its name.
fn or_none<'de, D: Deserializer<'de>, T: Deserialize<'de>>(source: D) -> Result<Vec<T>, D::Error> {
    Ok(Option::deserialize(source)?.unwrap_or_default())
}

/// Reads a file.
pub(super) fn read(yaml: &str) -> Result<Root, String> {
    let root: Root = serde_norway::from_str(yaml).map_err(|error| error.to_string())?;
    if root.domain.0.is_empty() {
        return Err("`domain` is empty: write the one that Envoy sends".to_owned());
    }
    Ok(root)
}
