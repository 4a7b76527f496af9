//! [`List`]: a list of values.

use std::{fmt, marker::PhantomData};

use serde::{
    Deserialize, Deserializer,
    de::{Error, MapAccess, SeqAccess, Visitor},
};

use super::KEY;

/// A list in brackets.
#[derive(Debug, Clone)]
pub(crate) struct List<T>(pub(crate) Vec<T>);

impl<T> Default for List<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for List<T> {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        source.deserialize_any(Items(PhantomData)).map(Self)
    }
}

struct Items<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for Items<T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a list: write `{KEY}[…]`")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Vec<T>, A::Error> {
        let mut all = Vec::new();
        while let Some(item) = items.next_element()? {
            all.push(item);
        }
        Ok(all)
    }

    /// A single text, or several separated by commas.
    fn visit_str<E: Error>(self, text: &str) -> Result<Vec<T>, E> {
        let items: Vec<String> = text.split(',').map(|item| format!("\"{}\"", item.trim().escape_debug())).collect();
        let list = items.join(", ");
        Err(E::custom(format!("`{}` is not a list: write `{KEY}[{list}]`", text.escape_debug())))
    }

    fn visit_map<A: MapAccess<'de>>(self, _: A) -> Result<Vec<T>, A::Error> {
        Err(A::Error::custom("a table is not a list: write its name in double brackets, as in `[[envoy]]`"))
    }
}
