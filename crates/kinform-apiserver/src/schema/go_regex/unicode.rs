//! The Unicode classes that a pattern may name: `\pN`, `\p{Greek}`.
//!
//! ```text
//! name -> class | None
//! ```
//!
//! Names are compared without case, spaces, hyphens and underscores, as Go does. Of a script's
//! names Go knows only the long one, and only if it is one word.
//!
//! Upstream: `go:regexp/syntax` (`unicodeTable`).

use regex_syntax::ParserBuilder;
use regex_syntax::hir::{Class, ClassUnicode, ClassUnicodeRange, HirKind};

const CATEGORIES: &str = " C Casedletter Cc Cf Closepunctuation Cn Cntrl Co Combiningmark \
    Connectorpunctuation Control Currencysymbol Dashpunctuation Decimalnumber Digit \
    Enclosingmark Finalpunctuation Format Initialpunctuation L Lc Letter Letternumber \
    Lineseparator Ll Lm Lo Lowercaseletter Lt Lu M Mark Mathsymbol Mc Me Mn Modifierletter \
    Modifiersymbol N Nd Nl No Nonspacingmark Number Openpunctuation Other Otherletter \
    Othernumber Otherpunctuation Othersymbol P Paragraphseparator Pc Pd Pe Pf Pi Po Privateuse \
    Ps Punct Punctuation S Sc Separator Sk Sm So Spaceseparator Spacingmark Symbol \
    Titlecaseletter Unassigned Uppercaseletter Z Zl Zp Zs ";
const SCRIPTS: &str = " Adlam Ahom Arabic Armenian Avestan Balinese Bamum Batak Bengali Bhaiksuki \
    Bopomofo Brahmi Braille Buginese Buhid Carian Chakma Cham Cherokee Chorasmian Common Coptic \
    Cuneiform Cypriot Cyrillic Deseret Devanagari Dogra Duployan Elbasan Elymaic Ethiopic Georgian \
    Glagolitic Gothic Grantha Greek Gujarati Gurmukhi Han Hangul Hanunoo Hatran Hebrew Hiragana \
    Inherited Javanese Kaithi Kannada Katakana Kawi Kharoshthi Khmer Khojki Khudawadi Lao Latin \
    Lepcha Limbu Lisu Lycian Lydian Mahajani Makasar Malayalam Mandaic Manichaean Marchen \
    Medefaidrin Miao Modi Mongolian Mro Multani Myanmar Nabataean Nandinagari Newa Nko Nushu Ogham \
    Oriya Osage Osmanya Palmyrene Phoenician Rejang Runic Samaritan Saurashtra Sharada Shavian \
    Siddham Sinhala Sogdian Soyombo Sundanese Syriac Tagalog Tagbanwa Takri Tamil Tangsa Tangut \
    Telugu Thaana Thai Tibetan Tifinagh Tirhuta Toto Ugaritic Vai Vithkuqi Wancho Yezidi Yi ";

/// Returns the class with a name, or `None` if Go knows no such class.
pub(super) fn named(name: &str) -> Option<ClassUnicode> {
    let name = canonical(name);
    let is_one_of = |names: &str| {
        let is_word = name.bytes().all(|byte| byte.is_ascii_alphabetic());
        is_word && !name.is_empty() && names.contains(&format!(" {name} "))
    };
    match name.as_str() {
        "Any" => return Some(span('\0', char::MAX)),
        "Ascii" => return Some(span('\0', '\x7f')),
        // No text has surrogates.
        "Cs" | "Surrogate" => return Some(ClassUnicode::empty()),
        "Assigned" => {
            let mut assigned = read("gc=Cn")?;
            assigned.negate();
            return Some(assigned);
        }
        _ => {}
    }
    if is_one_of(CATEGORIES) {
        read(&format!("gc={name}"))
    } else if is_one_of(SCRIPTS) {
        read(&format!("sc={name}"))
    } else {
        None
    }
}

/// Returns a name with its first letter alone in upper case, without separators.
fn canonical(name: &str) -> String {
    let mut made = String::with_capacity(name.len());
    let mut is_first = true;
    for letter in name.chars() {
        match letter {
            '_' | '-' | ' ' => {}
            _ if is_first => made.push(letter.to_ascii_uppercase()),
            _ => made.push(letter.to_ascii_lowercase()),
        }
        is_first &= matches!(letter, '_' | '-' | ' ');
    }
    made
}

fn span(first: char, last: char) -> ClassUnicode {
    ClassUnicode::new([ClassUnicodeRange::new(first, last)])
}

/// Reads a property from the tables of `regex-syntax`.
fn read(property: &str) -> Option<ClassUnicode> {
    let tree = ParserBuilder::new()
        .build()
        .parse(&format!(r"\p{{{property}}}"));
    match tree.ok()?.into_kind() {
        HirKind::Class(Class::Unicode(class)) => Some(class),
        HirKind::Class(Class::Bytes(class)) => class.to_unicode_class(),
        // A class of one letter.
        HirKind::Literal(literal) => {
            let text = std::str::from_utf8(&literal.0).ok()?;
            let letter = text.chars().next()?;
            Some(span(letter, letter))
        }
        _ => None,
    }
}
