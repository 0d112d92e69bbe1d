import test from 'ava';
import { parseForeignHash } from '#domain/end-users/foreign-hashes.ts';

const signer = 'jxspr8Ki0RYycVU8zykbdLGjFQ3McFUH0uiiTvC8pVMXAn210wjLNmdZJzxUECKbm0QsEmYUSDzZvpjeJ9WmXA==';

/** Hashes of `user1password` by other programs. */
const known = {
  'bcrypt of libxcrypt': '$2b$05$abcdefghijklmnopqrstuuzwGzMsJiHnC0bclquCqnk4cYoQFvaMK',
  'scrypt of OpenSSL': '$scrypt$ln=10,r=8,p=1$MDEyMzQ1Njc4OWFiY2RlZg$XOk9J0mSc4wGUDTqeGqqMW3b0hAch3MbfWPlbrlYBKo',
  'PBKDF2 with SHA-256 as passlib writes it':
    '$pbkdf2-sha256$1000$MDEyMzQ1Njc4OWFiY2RlZg$Xb5DoXnpCAsPx/gg.w3jC2kigBbh6NNZGFwXoN5V1z0',
  'PBKDF2 with SHA-512 as passlib writes it':
    '$pbkdf2-sha512$1000$MDEyMzQ1Njc4OWFiY2RlZg$JIULAt9SQJn1RB/THAUcQvKr0Tyi4T9YZcNaR5XsRm8QcPxEzimggFocTU39fOC7irvSCnrNTT4IfIWAZJFP3Q',
  // The example of Firebase's own description of its scrypt.
  'scrypt of Firebase': `$fbscrypt$v=1,n=14,r=8,p=1,ss=Bw==,sk=${signer}$42xEC+ixf3L2lw==$lSrfV15cpx95/sZS2W9c9Kp6i/LVgQNDNC/qzrCnh1SAyZvqmZqAjTdn3aoItz+VHjoZilo78198JAdRuid5lQ==`,
};

for (const [name, hash] of Object.entries(known)) {
  test(`${name} is verified, and its decoy is nobody's`, async (t) => {
    const foreign = parseForeignHash(hash);
    t.true(await foreign?.verify('user1password'));
    t.false(await foreign?.verify('user1passwore'));
    const decoy = parseForeignHash(foreign?.decoy ?? '');
    t.false(await decoy?.verify('user1password'));
    // Equal for all hashes that take as long.
    t.is(decoy?.decoy, foreign?.decoy);
  });
}

test('bcrypt in the forms of other programs is the same hash', async (t) => {
  for (const form of ['$2a$', '$2b$', '$2y$']) {
    t.true(await parseForeignHash(known['bcrypt of libxcrypt'].replace('$2b$', form))?.verify('user1password'));
  }
});

const salt = 'MDEyMzQ1Njc4OWFiY2RlZg';
const tag = 'A'.repeat(43);

for (const [what, hash] of Object.entries({
  'bcrypt of cost 16': `$2b$16$${'a'.repeat(53)}`,
  'bcrypt of cost 3': `$2b$03$${'a'.repeat(53)}`,
  'bcrypt with a fault of 2011': `$2x$10$${'a'.repeat(53)}`,
  'argon2 of more than 256 MiB': `$argon2id$v=19$m=262145,t=1,p=1$${salt}$${tag}`,
  'argon2 of 11 passes': `$argon2id$v=19$m=1024,t=11,p=1$${salt}$${tag}`,
  'argon2 of an earlier version': `$argon2id$v=16$m=1024,t=1,p=1$${salt}$${tag}`,
  'argon2 without enough memory for its lanes': `$argon2id$v=19$m=8,t=1,p=2$${salt}$${tag}`,
  'scrypt of ln 18': `$scrypt$ln=18,r=8,p=1$${salt}$${tag}`,
  'scrypt of more than 256 MiB': `$scrypt$ln=17,r=8,p=3$${salt}$${tag}`,
  'scrypt without a hash': `$scrypt$ln=14,r=8,p=1$${salt}$`,
  'Firebase without a signer key': `$fbscrypt$v=1,n=14,r=8,p=1,ss=Bw==$${salt}$${tag}`,
  'Firebase with a signer key of another length': `$fbscrypt$v=1,n=14,r=8,p=1,sk=AAAA$${salt}$${tag}`,
  'PBKDF2 of 5,000,001 rounds': `$pbkdf2-sha256$5000001$${salt}$${tag}`,
  'PBKDF2 of no rounds': `$pbkdf2-sha256$0$${salt}$${tag}`,
  'PBKDF2 with MD5': `$pbkdf2-md5$1000$${salt}$${tag}`,
  'a plain password': 'user1password',
  'an MD5': '5f4dcc3b5aa765d61d8327deb882cf99',
  nothing: '',
  'a megabyte': `$2b$10$${'a'.repeat(1_000_000)}`,
})) {
  test(`${what} is not taken`, (t) => t.is(parseForeignHash(hash), null));
}
