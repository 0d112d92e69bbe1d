import { createHash, createHmac, pbkdf2, randomBytes } from 'node:crypto';
import { promisify } from 'node:util';

// Iterations slow down guessing. 192 random bits cannot be guessed, and 4096 iterations are half of the cost of logging
// in.
const iterations = 1;

/**
 * A role's password as PostgreSQL stores it (RFC 5803): given in this form, the password itself never reaches the
 * server's log. For random passwords alone, and of ASCII characters, which need no SASLprep.
 */
export const scramVerifier = async (password: string): Promise<string> => {
  const salt = randomBytes(16);
  const salted = await promisify(pbkdf2)(password, salt, iterations, 32, 'sha256');
  const keyed = (text: string): Buffer => createHmac('sha256', salted).update(text).digest();
  const storedKey = createHash('sha256').update(keyed('Client Key')).digest('base64');
  return `SCRAM-SHA-256$${iterations}:${salt.toString('base64')}$${storedKey}:${keyed('Server Key').toString('base64')}`;
};
