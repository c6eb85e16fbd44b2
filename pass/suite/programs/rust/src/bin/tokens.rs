//! Text: a tokeniser and a calculator by precedence, a regular expression run as a set of states, a
//! CSV reader as a state machine, UTF-8 by characters.

#![forbid(unsafe_code)]

use safepoint_programs::{Random, Sum, rounds};
use std::iter::Peekable;
use std::str::Chars;

const ROUNDS: u32 = 1100;

fn number(text: &mut Peekable<Chars<'_>>) -> u64 {
    let mut value = 0u64;
    while let Some(digit) = text.peek().and_then(|c| c.to_digit(10)) {
        value = value.wrapping_mul(10).wrapping_add(u64::from(digit));
        text.next();
    }
    value
}

fn primary(text: &mut Peekable<Chars<'_>>) -> Result<u64, char> {
    match text.peek() {
        Some('(') => {
            text.next();
            let value = expression(text, 0)?;
            text.next_if_eq(&')').ok_or('(').map(|_| value)
        }
        Some('-') => {
            text.next();
            primary(text).map(u64::wrapping_neg)
        }
        Some(c) if c.is_ascii_digit() => Ok(number(text)),
        Some(c) => Err(*c),
        None => Err('$'),
    }
}

fn expression(text: &mut Peekable<Chars<'_>>, least: u32) -> Result<u64, char> {
    let mut value = primary(text)?;
    loop {
        let operator = text.peek().copied();
        let binding = match operator {
            Some('+' | '-') => 1,
            Some('*' | '%') => 2,
            Some('^') => 3,
            _ => return Ok(value),
        };
        if binding <= least {
            return Ok(value);
        }
        text.next();
        let right = expression(text, binding)?;
        value = match operator {
            Some('+') => value.wrapping_add(right),
            Some('-') => value.wrapping_sub(right),
            Some('*') => value.wrapping_mul(right),
            Some('%') => value.checked_rem(right).unwrap_or(0),
            _ => value ^ right,
        };
    }
}

fn write_expression(random: &mut Random, depth: u32, out: &mut String) {
    if depth == 0 || random.below(4) == 0 {
        out.push_str(&random.below(100_000).to_string());
        return;
    }
    let open = random.below(2) == 0;
    out.push_str(if open { "(" } else { "" });
    write_expression(random, depth - 1, out);
    out.push(['+', '-', '*', '%', '^'][random.below(5) as usize]);
    write_expression(random, depth - 1, out);
    out.push_str(if open { ")" } else { "" });
}

/// Where `a(b|c)*d.e` ends for the first time, by a set of states in a word.
fn matches(text: &[u8]) -> Option<usize> {
    let mut states = 1u32;
    for (at, byte) in text.iter().enumerate() {
        let mut next = 1u32;
        for state in 0..5 {
            let goes = match (state, byte) {
                (0, b'a') => 1 << 1,
                (1, b'b' | b'c') => 1 << 1,
                (1, b'd') => 1 << 2,
                (2, _) => 1 << 3,
                (3, b'e') => 1 << 4,
                _ => 0,
            };
            if states & 1 << state != 0 {
                next |= goes;
            }
        }
        states = next;
        if states & 1 << 4 != 0 {
            return Some(at);
        }
    }
    None
}

/// Fields, and the sum of the lengths of the quoted ones.
fn csv(text: &str) -> (u64, u64) {
    enum State {
        Field,
        Quoted,
        Quote,
    }
    let (mut state, mut fields, mut quoted) = (State::Field, 1, 0);
    for c in text.chars() {
        state = match (state, c) {
            (State::Field, '"') | (State::Quote, '"') => State::Quoted,
            (State::Field | State::Quote, ',' | '\n') => {
                fields += 1;
                State::Field
            }
            (State::Quoted, '"') => State::Quote,
            (State::Quoted, _) => {
                quoted += 1;
                State::Quoted
            }
            (State::Field | State::Quote, _) => State::Field,
        };
    }
    (fields, quoted)
}

fn main() {
    let (mut random, mut sum) = (Random::new(), Sum::default());
    let mut expressions = Vec::new();
    for depth in [1, 3, 6, 9] {
        for _ in 0..30 {
            let mut text = String::new();
            write_expression(&mut random, depth, &mut text);
            expressions.push(text);
        }
    }
    let letters: Vec<u8> =
        (0..100_000).map(|_| b"abbbcccdfgh"[random.below(11) as usize]).collect();
    let table: String = (0..20_000)
        .map(|_| {
            ["a", "42", ",", ",", "\n", "\"x, \"\"y\"\"\"", "é", "漢字"][random.below(8) as usize]
        })
        .collect();
    for _ in 0..rounds(ROUNDS) {
        for text in &expressions {
            let value = expression(&mut text.chars().peekable(), 0);
            sum.mix(value.unwrap_or_else(u64::from));
        }
        let mut text = &letters[random.below(1000) as usize..];
        while let Some(end) = matches(text) {
            sum.mix(end as u64);
            text = &text[end + 1..];
        }
        let (fields, quoted) = csv(&table);
        sum.mix(fields << 32 | quoted);
    }
    sum.end();
}
