//! Shortens long names so that different names stay different: the part where they differ is shown.

use std::collections::HashMap;

/// Number of times that equal results are shortened again.
const ROUNDS: usize = 4;

/// Replaces the middle of a long name with `…`.
pub(crate) fn shorten(name: &str, max: usize) -> String {
    let characters: Vec<char> = name.chars().collect();
    if characters.len() <= max {
        return name.to_owned();
    }
    let tail = max.saturating_sub(1) / 2;
    joined(&characters, &[(0, max.saturating_sub(1) - tail), (characters.len() - tail, characters.len())])
}

/// Shortens names to at most `max` characters. Different names have different results.
///
/// A name keeps its beginning and its end. Where these are equal, it keeps the part in which the names differ.
pub(crate) fn shorten_all<S: AsRef<str>>(names: &[S], max: usize) -> Vec<String> {
    let characters: Vec<Vec<char>> = names.iter().map(|name| name.as_ref().chars().collect()).collect();
    let mut shown: Vec<String> = names.iter().map(|name| shorten(name.as_ref(), max)).collect();
    for _ in 0..ROUNDS {
        let equal = equal_results(names, &shown);
        if equal.is_empty() {
            return shown;
        }
        for set in equal {
            let (prefix, suffix) = common_ends(&set.iter().map(|i| characters[*i].as_slice()).collect::<Vec<_>>());
            for i in set {
                if characters[i].len() > max {
                    shown[i] = around(&characters[i], prefix, suffix, max);
                }
            }
        }
    }
    for set in equal_results(names, &shown) {
        for (nth, i) in set.into_iter().enumerate().skip(1) {
            let number = format!("~{}", nth + 1);
            let kept: String = shown[i].chars().take(max.saturating_sub(number.len())).collect();
            shown[i] = kept + &number;
        }
    }
    shown
}

/// Returns the sets of different names whose results are equal.
fn equal_results<S: AsRef<str>>(names: &[S], shown: &[String]) -> Vec<Vec<usize>> {
    let mut by_result: HashMap<&str, Vec<usize>> = HashMap::new();
    for (i, text) in shown.iter().enumerate() {
        let set = by_result.entry(text).or_default();
        if set.iter().all(|other| names[*other].as_ref() != names[i].as_ref()) {
            set.push(i);
        }
    }
    let mut sets: Vec<Vec<usize>> = by_result.into_values().filter(|set| set.len() > 1).collect();
    sets.sort_unstable();
    sets
}

/// Returns the number of characters that all names have in common at their beginning, and at their end after that.
fn common_ends(names: &[&[char]]) -> (usize, usize) {
    let Some((first, others)) = names.split_first() else { return (0, 0) };
    let same = |other: &[char]| first.iter().zip(other).take_while(|(a, b)| a == b).count();
    let prefix = others.iter().map(|other| same(other)).min().unwrap_or(0);
    let same_end = |other: &[char]| {
        let (a, b) = (first[prefix..].iter().rev(), other[prefix..].iter().rev());
        a.zip(b).take_while(|(a, b)| a == b).count()
    };
    (prefix, others.iter().map(|other| same_end(other)).min().unwrap_or(0))
}

/// Shortens a name. Keeps the words between a common beginning and a common end, or the ends of these if they are too long.
fn around(name: &[char], prefix: usize, suffix: usize, max: usize) -> String {
    // One place for each gap before and after the part.
    let room = max.saturating_sub(2);
    let (start, end) = whole_words(name, prefix, name.len() - suffix, room);
    if end - start > room {
        let tail = room.saturating_sub(1) / 2;
        return joined(name, &[(start, start + room.saturating_sub(1) - tail), (end - tail, end)]);
    }
    let rest = room - (end - start);
    let head = (rest / 2).min(start);
    let tail = (rest - head).min(name.len() - end);
    let head = (rest - tail).min(start);
    joined(name, &[(0, head), (start, end), (name.len() - tail, name.len())])
}

/// Extends a part of a name to whole words, if these are short: `118.0` says more than the `8` that differs.
fn whole_words(name: &[char], start: usize, end: usize, room: usize) -> (usize, usize) {
    let in_word = |char: &&char| char.is_alphanumeric() || matches!(char, '.' | '_' | '-');
    let before = name[..start].iter().rev().take_while(in_word).count();
    let after = name[end..].iter().take_while(in_word).count();
    if before + (end - start) + after <= room / 2 { (start - before, end + after) } else { (start, end) }
}

/// Joins ranges of a name with `…` in place of the gaps.
fn joined(name: &[char], ranges: &[(usize, usize)]) -> String {
    let (mut out, mut at) = (String::new(), 0);
    for (start, end) in ranges.iter().copied().filter(|(start, end)| start < end) {
        if start > at {
            out.push('…');
        }
        out.extend(&name[start.max(at)..end.max(at)]);
        at = end.max(at);
    }
    if at < name.len() {
        out.push('…');
    }
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{shorten, shorten_all};

    #[test]
    fn a_single_name_keeps_its_beginning_and_its_end() {
        assert_eq!(shorten("203.0.113.7", 22), "203.0.113.7");
        assert_eq!(shorten("/api/v1/customers/12345/orders", 16), "/api/v1/…/orders");
    }

    #[test]
    fn names_that_differ_only_at_one_place_stay_different_there() {
        let common = "x".repeat(60);
        let start = [format!("a{common}"), format!("b{common}")];
        assert!(shorten_all(&start, 22)[0].starts_with("ax") && shorten_all(&start, 22)[1].starts_with("bx"));
        let end = [format!("{common}a"), format!("{common}b")];
        assert!(shorten_all(&end, 22)[0].ends_with("xa") && shorten_all(&end, 22)[1].ends_with("xb"));
        let middle = [format!("{common}-one-{common}"), format!("{common}-two-{common}")];
        assert_eq!(shorten_all(&middle, 22), ["xxxxxxxx…one…xxxxxxxxx", "xxxxxxxx…two…xxxxxxxxx"]);
    }

    #[test]
    fn the_differing_part_of_user_agents_and_paths_is_shown() {
        let agent = |version: &str| {
            format!(
                "Mozilla/5.0 (Windows NT 10.0) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/{version}.0 Safari/537.36"
            )
        };
        let shown = shorten_all(&[agent("118"), agent("131"), agent("119")], 22);
        assert_eq!(shown, ["Mozilla…118.0…i/537.36", "Mozilla…131.0…i/537.36", "Mozilla…119.0…i/537.36"]);
        let path = |id: u32| format!("203.0.113.7 + /api/v1/customers/{id}/orders/export");
        let shown = shorten_all(&[path(10_001), path(10_002), path(20_001)], 22);
        assert!(shown[0].contains("001") && shown[1].contains('2') && shown[2].contains("20"), "{shown:?}");
    }

    proptest! {
        #[test]
        fn different_names_have_different_results_that_fit(
            names in prop::collection::hash_set("[ab]{0,3}(x{30}|y{30})[ab]{0,3}(x{30}|)[ab]{0,2}", 1..20),
            max in 12_usize..40,
        ) {
            let names: Vec<String> = names.into_iter().collect();
            let shown = shorten_all(&names, max);
            prop_assert!(shown.iter().all(|name| name.chars().count() <= max), "{:?}", shown);
            let different: std::collections::HashSet<&String> = shown.iter().collect();
            prop_assert_eq!(different.len(), names.len(), "{:?}", shown);
        }
    }
}
