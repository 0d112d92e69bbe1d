// Loaded before each test file (ava.config.js) and into the processes that tests start: one hash at the platform's cost
// takes 40 ms of CPU, and the tests sign up thousands of users. Which cost is asked for is tested in
// test/accounts/login.test.ts; hashes of a lower one are computed as they are.
import crypto from 'node:crypto';
import { syncBuiltinESMExports } from 'node:module';

const cheapMemoryKib = 1024;

const { argon2 } = crypto;
crypto.argon2 = (algorithm, parameters, done) => {
  const isCheap = parameters.memory <= cheapMemoryKib;
  argon2(algorithm, isCheap ? parameters : { ...parameters, memory: 8 * parameters.parallelism, passes: 1 }, done);
};
syncBuiltinESMExports();
