import { type ScryptOptions, argon2, createCipheriv, pbkdf2, scrypt, timingSafeEqual } from 'node:crypto';
import { promisify } from 'node:util';

/*
 * Password hashes of other systems, which users bring along when they are imported. Each stays until its user signs in:
 * then the password is known, and is hashed as all others are (`passwords.ts`).
 */

/** A hash that can be verified against. */
export interface ForeignHash {
  /** A hash of nobody's that takes as long: equal for all hashes of one form and cost. */
  readonly decoy: string;
  readonly verify: (password: string) => Promise<boolean>;
}

const deriveArgon2 = promisify(argon2);
const derivePbkdf2 = promisify(pbkdf2);
const deriveScrypt = promisify<string, Buffer, number, ScryptOptions, Buffer>(scrypt);

const mib = 1024 * 1024;
/** One check takes at most some 3 s of one thread, and 256 MiB (contract, section 9). */
const max = {
  bcryptCost: 15,
  memory: 256 * mib,
  argon2Passes: 10,
  scryptLn: 17,
  pbkdf2Iterations: 5_000_000,
} as const;
const maxBytes = 512;

/** Base64 with or without padding; passlib writes a dot for the plus. */
const bytesOf = (text: string): Buffer => Buffer.from(text.replaceAll('.', '+'), 'base64');
const zeros = (bytes: Buffer): string => Buffer.alloc(bytes.length).toString('base64').replaceAll('=', '');

const isUsable = (...parts: readonly Buffer[]): boolean =>
  parts.every(({ length }) => length > 0 && length <= maxBytes);

const bcryptForm = /^\$2[aby]\$(\d\d)\$([./A-Za-z\d]{53})$/;

const parseBcrypt = (text: string): ForeignHash | null => {
  const [whole, cost = '', rest = ''] = bcryptForm.exec(text) ?? [];
  if (whole === undefined || Number(cost) < 4 || Number(cost) > max.bcryptCost) return null;
  return {
    decoy: `$2b$${cost}$${'.'.repeat(rest.length)}`,
    verify: async (password) => {
      const { verify } = await import('@node-rs/bcrypt');
      return verify(password, `$2b$${cost}$${rest}`);
    },
  };
};

const argon2Form = /^\$(argon2id|argon2i|argon2d)\$v=19\$m=(\d{1,9}),t=(\d{1,4}),p=(\d{1,3})\$([\w+/]+)\$([\w+/]+)$/;

interface Argon2Cost {
  /** KiB. */
  readonly memory: number;
  readonly passes: number;
  readonly parallelism: number;
}

const isCheapArgon2 = ({ memory, passes, parallelism }: Argon2Cost): boolean =>
  memory * 1024 <= max.memory &&
  passes >= 1 &&
  passes <= max.argon2Passes &&
  parallelism >= 1 &&
  memory >= 8 * parallelism;

const parseArgon2 = (text: string): ForeignHash | null => {
  const [whole, kind = '', m, t, p, salt = '', hash = ''] = argon2Form.exec(text) ?? [];
  const cost = { memory: Number(m), passes: Number(t), parallelism: Number(p) };
  const [nonce, tag] = [bytesOf(salt), bytesOf(hash)];
  if (whole === undefined || !isCheapArgon2(cost) || !isUsable(nonce, tag)) return null;
  // The least that RFC 9106 allows.
  if (nonce.length < 8 || tag.length < 4) return null;
  return {
    decoy: `$${kind}$v=19$m=${cost.memory},t=${cost.passes},p=${cost.parallelism}$${zeros(nonce)}$${zeros(tag)}`,
    verify: async (password) => {
      const message = Buffer.from(password);
      const made = await deriveArgon2(kind as 'argon2id', { ...cost, message, nonce, tagLength: tag.length });
      return timingSafeEqual(made, tag);
    },
  };
};

interface ScryptCost {
  readonly ln: number;
  readonly r: number;
  readonly p: number;
}

const isCheapScrypt = ({ ln, r, p }: ScryptCost): boolean =>
  ln >= 1 && ln <= max.scryptLn && r >= 1 && p >= 1 && p <= 4 && 128 * 2 ** ln * r * p <= max.memory;

const scryptKey = (password: string, salt: Buffer, length: number, { ln, r, p }: ScryptCost): Promise<Buffer> =>
  deriveScrypt(password, salt, length, { N: 2 ** ln, r, p, maxmem: 2 * max.memory });

const scryptForm = /^\$scrypt\$ln=(\d{1,2}),r=(\d{1,3}),p=(\d{1,2})\$([\w+/.]+={0,2})\$([\w+/.]+={0,2})$/;

const parseScrypt = (text: string): ForeignHash | null => {
  const [whole, ln, r, p, salt = '', hash = ''] = scryptForm.exec(text) ?? [];
  const cost = { ln: Number(ln), r: Number(r), p: Number(p) };
  const [saltBytes, tag] = [bytesOf(salt), bytesOf(hash)];
  if (whole === undefined || !isCheapScrypt(cost) || !isUsable(saltBytes, tag)) return null;
  return {
    decoy: `$scrypt$ln=${cost.ln},r=${cost.r},p=${cost.p}$${zeros(saltBytes)}$${zeros(tag)}`,
    verify: async (password) => timingSafeEqual(await scryptKey(password, saltBytes, tag.length, cost), tag),
  };
};

const firebaseForm =
  /^\$fbscrypt\$v=1,n=(\d{1,2}),r=(\d{1,3}),p=(\d{1,2})(?:,ss=([\w+/-]+={0,2}))?,sk=([\w+/-]+={0,2})\$([\w+/-]+={0,2})\$([\w+/-]+={0,2})$/;

/** The scrypt of Firebase: the project's signer key, encrypted with what scrypt makes of the password, is the hash. */
const parseFirebase = (text: string): ForeignHash | null => {
  const [whole, n, r, p, separator = '', signer = '', salt = '', hash = ''] = firebaseForm.exec(text) ?? [];
  const cost = { ln: Number(n), r: Number(r), p: Number(p) };
  const [signerKey, tag] = [bytesOf(signer), bytesOf(hash)];
  const saltBytes = Buffer.concat([bytesOf(salt), bytesOf(separator)]);
  if (whole === undefined || !isCheapScrypt(cost) || !isUsable(signerKey, tag, saltBytes)) return null;
  if (signerKey.length !== tag.length) return null;
  return {
    decoy: `$fbscrypt$v=1,n=${cost.ln},r=${cost.r},p=${cost.p},sk=${zeros(tag)}$${zeros(saltBytes)}$${zeros(tag)}`,
    verify: async (password) => {
      const key = await scryptKey(password, saltBytes, 32, cost);
      const cipher = createCipheriv('aes-256-ctr', key, Buffer.alloc(16));
      return timingSafeEqual(Buffer.concat([cipher.update(signerKey), cipher.final()]), tag);
    },
  };
};

const pbkdf2Form = /^\$pbkdf2-(sha256|sha512)\$(?:i=)?(\d{1,7})(?:,l=\d{1,3})?\$([\w+/.]+={0,2})\$([\w+/.]+={0,2})$/;

const parsePbkdf2 = (text: string): ForeignHash | null => {
  const [whole, digest = '', rounds, salt = '', hash = ''] = pbkdf2Form.exec(text) ?? [];
  const iterations = Number(rounds);
  const [saltBytes, tag] = [bytesOf(salt), bytesOf(hash)];
  if (whole === undefined || iterations < 1 || iterations > max.pbkdf2Iterations || !isUsable(saltBytes, tag)) {
    return null;
  }
  return {
    decoy: `$pbkdf2-${digest}$${iterations}$${zeros(saltBytes)}$${zeros(tag)}`,
    verify: async (password) =>
      timingSafeEqual(await derivePbkdf2(password, saltBytes, iterations, tag.length, digest), tag),
  };
};

const maxLength = 1024;

/**
 * The hash of another system: bcrypt (`$2a$`, `$2b$`, `$2y$`), argon2 (PHC form), scrypt (PHC form), Firebase's scrypt
 * (`$fbscrypt$`) or PBKDF2 (PHC form and that of passlib).
 * @returns null for other forms, and where one check would cost too much
 */
export const parseForeignHash = (text: string): ForeignHash | null => {
  if (text.length > maxLength) return null;
  return parseBcrypt(text) ?? parseArgon2(text) ?? parseScrypt(text) ?? parseFirebase(text) ?? parsePbkdf2(text);
};
