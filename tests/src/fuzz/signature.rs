//! OpenPGP keys and detached signatures, as publishers give them.

use firesteel_images::openpgp;

/// A key and a signature, as [`super::messages`].
pub(super) fn check(input: &[u8]) {
    let mut parts = super::messages(input);
    let (keys, signature) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    openpgp::check(keys, signature);
    openpgp::check(signature, keys);
}

/// Of throw-away keys, in hexadecimal digits.
struct Pair {
    key: &'static [&'static str],
    signature: &'static [&'static str],
}

/// GnuPG's, of an Ed25519 and of an RSA key.
const PAIRS: [Pair; 2] = [
    Pair {
        key: &[
            "9833046b03d05616092b06010401da470f01010740966aaec95980867d5a851fdc73c32dc8a3b5fbf49680e9991528e6950d",
            "64de86b41178203c78406578616d706c652e636f6d3e8890041316080038162104eb752f058c3aa4f8b3d314ae644ebd2868",
            "215b6b05026b03d056021b03050b0908070206150a09080b020416020301021e01021780000a0910644ebd2868215b6b65db",
            "0100b82518e8f72f972d57ab54810e9a5aaa425da5ec3a1d2c8676357a86e93792a100ff564c4e3be90ab1b4951104b84993",
            "5cd7968055dbef032cea3eb549c3a8170d08",
        ],
        signature: &[
            "887504001608001d162104eb752f058c3aa4f8b3d314ae644ebd2868215b6b05026b03d056000a0910644ebd2868215b6bd8",
            "a900fc0f7ffbfecc420882916df7034900af60dd2b1327e314a4fb12c907e0fa36acee0100e7ee9ae8d03080a6f226ab6d99",
            "9c6a171b9d05aca734ca69585f1ee7806d0306",
        ],
    },
    Pair {
        key: &[
            "99010d046b03d056010800e448669aa6940bf4e6655fb7562b7df5fd94dd9b2745f237309b8d25e5e376db932dc2c563ba51",
            "245c661b19dcbaa3c24a968c08b6ce117f1922ab5addd157f2fd835c475ab27d789855996abf8bba4ea046c96c0101fcd17e",
            "aaeffcfa662a93dcca89e95eed8b0518c8159e2159b6076e0158dfd14aca0eabd222035936f63590ee5a02e9117ace446c6c",
            "698f7c1df09fb4d987b5a4823e9db2ebfc9a76baf6c5efee7e0c114c2c9a056a707dffc3bc7d25e09ea09557c6a8f8c38165",
            "f7e12d697138d1808391449f86b91b0bd439637041d608effc8280d304bad68281de0ff963869c1ebcb35b1ea7d172967092",
            "07e1cef3ddfac014b2b4a1ee16e09bd9150011010001b41178203c78406578616d706c652e636f6d3e89014e0413010a0038",
            "1621044b2fb6c56066c2216620162eb7a44ececd0fd23905026b03d056021b03050b0908070206150a09080b020416020301",
            "021e01021780000a0910b7a44ececd0fd239081e0800bc521be8cbbf8b4a77d00ecad31af308ac74ed0066f065da31acc134",
            "be413ba890c4434fcc1baab87cc46a9c47ebacb30b316f091d3aa6e4e0e0ad2720a64bd9a15cb51b38e4e7f6be3dd6aabef4",
            "47a5d9d26a821c48d681fa848331d8d58fa1b19f80003b2c4b738272dc48cd98b7dc34a6101039337ed3b28cf02b847147aa",
            "c794b1783bbb794f1bf7eb2ce327b8fdd6b2da6094a9ffade8036d78118f33d5677e541d4b0adf0396810d6f99f396b9c263",
            "dd0207ee833d81c12557394a89b2b6300216dd0c7448b15237e1337f298ac9e27e0c1b187673afbac848c1390afb899249f5",
            "8f2582ddaf8f8dcc1f23cb19c329bc33753bb698efd227ba00b14c19",
        ],
        signature: &[
            "8901330400010a001d1621044b2fb6c56066c2216620162eb7a44ececd0fd23905026b03d057000a0910b7a44ececd0fd239",
            "6f3d07ff622868e1c61012dddd36df42a25efebb022ae871b8ac60807fe335da57b792bb39c8fb36fc8840aaf8a50b738df6",
            "e2a45aed53d0581be620cdf507347c3864473c7da8b556e52866071e504bc57252fb0070e764ef22bd095824f5edeb88179d",
            "04956ee1ba02bb6c55e9fdc1a6ed3078bb1972b797dbef290073fcf4322e1805999e35717ad0d37fd05b2bbd04a917175674",
            "955f30bba22ec42949f983b912e80733863fbe1d7433ed1092fae0474bd57ac88469e215235549cd867f5af7302b9643bb6b",
            "e1efba0b998289b7e6bd17cd61a3de47077885baaa681cd3f96ff5398a6d6bdc5ad43c8c8a7af81bbce98a5ff4c83589a2af",
            "7af7c1810c7974e5d407",
        ],
    },
];

const ARMORED_KEY: &str = "\
-----BEGIN PGP PUBLIC KEY BLOCK-----\n\
\n\
mDMEawPQVhYJKwYBBAHaRw8BAQdAlmquyVmAhn1ahR/cc8MtyKO1+/SWgOmZFSjm\n\
lQ1k3oa0EXggPHhAZXhhbXBsZS5jb20+iJAEExYIADgWIQTrdS8FjDqk+LPTFK5k\n\
Tr0oaCFbawUCawPQVgIbAwULCQgHAgYVCgkICwIEFgIDAQIeAQIXgAAKCRBkTr0o\n\
aCFba2XbAQC4JRjo9y+XLVerVIEOmlqqQl2l7DodLIZ2NXqG6TeSoQD/VkxOO+kK\n\
sbSVEQS4SZNc15aAVdvvAyzqPrVJw6gXDQg=\n\
=jl63\n\
-----END PGP PUBLIC KEY BLOCK-----\n\n";

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let bytes = |digits: &[&str]| hex::decode(digits.concat()).unwrap();
    let mut seeds: Vec<Vec<u8>> =
        PAIRS.iter().map(|pair| super::joined(&[&bytes(pair.key), &bytes(pair.signature)])).collect();
    let [first, second] = PAIRS.each_ref().map(|pair| (bytes(pair.key), bytes(pair.signature)));
    seeds.push(super::joined(&[&first.0, &[&second.1[..], &first.1].concat()]));
    seeds.push(super::joined(&[&[&first.0[..], &second.0].concat(), &second.1]));
    seeds.push(super::joined(&[ARMORED_KEY.as_bytes(), &first.1]));
    seeds.push(super::joined(&[&first.0[..first.0.len() - 7], &first.1[..20]]));
    seeds
}
