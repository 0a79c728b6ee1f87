//! The FRU inventory of a BMC: who made the machine, what it is called, its serial number.
//!
//! The common header tells where the areas begin, in units of eight bytes; the product area and the
//! board area are lists of fields, each after a byte with its type (two bits) and length. What does
//! not fit is left out: an inventory is for people, and many are filled badly.

use crate::error::plain_text;

/// Read of one inventory. Both areas are at its beginning; what is behind them is large and the vendor's own.
pub const BYTES_MAX: usize = 2048;
/// Fields of one area that are looked at.
const FIELDS_MAX: usize = 16;
const END: u8 = 0xc1;
const UNIT: usize = 8;

/// What an inventory says of the machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FruIdentity {
    pub manufacturer: Option<String>,
    pub model: Option<String>,
    pub part: Option<String>,
    pub serial: Option<String>,
}

impl FruIdentity {
    fn merge_missing(self, other: Self) -> Self {
        Self {
            manufacturer: self.manufacturer.or(other.manufacturer),
            model: self.model.or(other.model),
            part: self.part.or(other.part),
            serial: self.serial.or(other.serial),
        }
    }
}

/// How much of the inventory has to be read, from its first eight bytes: up to the end of board and
/// product area as far as the other areas' beginnings tell it, at most [`BYTES_MAX`].
#[must_use]
pub fn bytes_wanted(header: &[u8; 8], size: usize) -> usize {
    if !is_header(header) {
        return 0;
    }
    let [_, _, _, board, product, ..] = header.map(|offset| usize::from(offset) * UNIT);
    let last = board.max(product);
    if last == 0 {
        return 0;
    }
    // An area ends where the next one begins, or after 255 units.
    let next = header[1..6].iter().map(|offset| usize::from(*offset) * UNIT).filter(|offset| *offset > last).min();
    next.unwrap_or(last + 0xff * UNIT).min(size).min(BYTES_MAX)
}

fn is_header(header: &[u8; 8]) -> bool {
    header[0] & 0x0f == 1 && is_balanced(header)
}

fn is_balanced(bytes: &[u8]) -> bool {
    bytes.iter().fold(0u8, |sum, byte| sum.wrapping_add(*byte)) == 0
}

/// The product area's fields, and the board's where those are empty.
#[must_use]
pub fn identity(inventory: &[u8]) -> FruIdentity {
    let Some(header) = inventory.first_chunk::<8>().filter(|header| is_header(header)) else {
        return FruIdentity::default();
    };
    let product = area(inventory, header[4], 3).map(|fields| {
        let [manufacturer, model, part, _version, serial] = first(fields);
        FruIdentity { manufacturer, model, part, serial }
    });
    // Before its fields a board has the minute in which it was made.
    let board = area(inventory, header[3], 6).map(|fields| {
        let [manufacturer, model, serial, part] = first(fields);
        FruIdentity { manufacturer, model, part, serial }
    });
    product.unwrap_or_default().merge_missing(board.unwrap_or_default())
}

fn first<const N: usize>(fields: Vec<Option<String>>) -> [Option<String>; N] {
    let mut fields = fields.into_iter();
    std::array::from_fn(|_| fields.next().flatten())
}

/// Fields of the area at `offset`, which begin after `skip` bytes; none where there is no such area, or a wrong sum.
fn area(inventory: &[u8], offset: u8, skip: usize) -> Option<Vec<Option<String>>> {
    let bytes = inventory.get(usize::from(offset) * UNIT..).filter(|_| offset > 0)?;
    let length = usize::from(*bytes.get(1)?) * UNIT;
    let bytes = bytes.get(..length).filter(|bytes| is_balanced(bytes))?;
    let language = *bytes.get(2)?;
    let mut rest = bytes.get(skip..)?;
    let mut fields = Vec::new();
    while let Some((&kind, after)) = rest.split_first()
        && kind != END
        && fields.len() < FIELDS_MAX
    {
        let Some((field, after)) = after.split_at_checked(usize::from(kind & 0x3f)) else { break };
        let text = text(kind >> 6, field, language);
        let text = plain_text(text.trim_matches([' ', '\0']));
        fields.push(Some(text).filter(|text| !text.is_empty()));
        rest = after;
    }
    Some(fields)
}

fn text(kind: u8, field: &[u8], language: u8) -> String {
    const BCD: &[u8; 16] = b"0123456789 -.???";
    let is_english = matches!(language, 0 | 25);
    match kind {
        0 => field.iter().map(|byte| format!("{byte:02x}")).collect(),
        1 => {
            let digit = |nibble: u8| char::from(BCD[usize::from(nibble & 0x0f)]);
            field.iter().flat_map(|byte| [digit(byte >> 4), digit(*byte)]).collect()
        }
        2 => six_bit(field),
        _ if is_english => field.iter().map(|byte| char::from(*byte)).collect(),
        _ => {
            let units: Vec<u16> = field.as_chunks::<2>().0.iter().map(|pair| u16::from_le_bytes(*pair)).collect();
            String::from_utf16_lossy(&units)
        }
    }
}

/// Characters of six bits from the space on, the first one in the lowest bits.
fn six_bit(field: &[u8]) -> String {
    let bit = |at: usize| field.get(at / 8).map_or(0, |byte| (byte >> (at % 8)) & 1);
    let character = |number: usize| (0..6).fold(0u8, |sum, shift| sum | bit(number * 6 + shift) << shift);
    (0..field.len() * 8 / 6).map(|number| char::from(b' ' + character(number))).collect()
}

/// An inventory with a product area, for tests.
#[must_use]
pub fn with_product(manufacturer: &str, model: &str, serial: &str) -> Vec<u8> {
    let mut area = vec![1, 0, 25];
    // Behind the serial number are an asset tag and the file's own name.
    for text in [manufacturer, model, "", "", serial, "", ""] {
        let bytes = &text.as_bytes()[..text.len().min(0x3f)];
        area.push(0xc0 | u8::try_from(bytes.len()).unwrap_or_default());
        area.extend(bytes);
    }
    area.push(END);
    area.resize((area.len() + 1).next_multiple_of(UNIT) - 1, 0);
    area[1] = u8::try_from((area.len() + 1) / UNIT).unwrap_or_default();
    let balance = |bytes: &[u8]| bytes.iter().fold(0u8, |sum, byte| sum.wrapping_sub(*byte));
    area.push(balance(&area));
    let mut header = vec![1, 0, 0, 0, 1, 0, 0];
    header.push(balance(&header));
    [header, area].concat()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_product_is_read() {
        let inventory = with_product("Example", "Server 5", "SN-77 \u{1b}");
        let header = inventory.first_chunk().unwrap();
        assert_eq!(bytes_wanted(header, inventory.len()), inventory.len());
        let seen = identity(&inventory);
        assert_eq!(seen.manufacturer.as_deref(), Some("Example"));
        assert_eq!(seen.model.as_deref(), Some("Server 5"));
        assert_eq!(seen.serial.as_deref(), Some("SN-77 ?"), "nothing that moves a cursor");
        assert_eq!(seen.part, None);
    }

    #[test]
    fn a_wrong_sum_says_nothing() {
        let mut inventory = with_product("Example", "Server", "1");
        inventory[20] ^= 1;
        assert_eq!(identity(&inventory), FruIdentity::default());
        assert_eq!(bytes_wanted(&[1, 0, 0, 0, 1, 0, 0, 0], 100), 0);
        assert_eq!(bytes_wanted(&[0xff; 8], 100), 0);
    }

    #[test]
    fn texts_in_their_four_forms() {
        assert_eq!(text(0, &[0x01, 0xfe], 25), "01fe");
        assert_eq!(text(1, &[0x12, 0xab], 25), "12 -");
        // The definition's own example: "IPMI".
        assert_eq!(text(2, &[0x29, 0xdc, 0xa6], 25), "IPMI");
        assert_eq!(text(3, b"A\0B\0", 1), "AB");
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            drop(identity(&bytes));
            if let Some(header) = bytes.first_chunk() {
                prop_assert!(bytes_wanted(header, bytes.len()) <= bytes.len());
            }
        }

        #[test]
        fn near_inventories_do_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), at in 8usize..40) {
            let mut inventory = with_product("Example", "Server 5", "SN-77");
            for (place, byte) in inventory.iter_mut().skip(at).zip(bytes) {
                *place = byte;
            }
            drop(identity(&inventory));
        }
    }
}
