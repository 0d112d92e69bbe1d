import crypto from 'node:crypto';
import { syncBuiltinESMExports } from 'node:module';

/**
 * Records the options of each call of argon2 in this process. Import this before anything that imports the platform.
 */
export const argon2Calls: { readonly memory: number; readonly passes: number; readonly tagLength: number }[] = [];

/** How many ran at the same time, at most. */
export const argon2Load = { now: 0, max: 0 };

const { argon2 } = crypto;
crypto.argon2 = (algorithm, parameters, done) => {
  const { memory, passes, tagLength } = parameters;
  argon2Calls.push({ memory, passes, tagLength });
  argon2Load.now += 1;
  argon2Load.max = Math.max(argon2Load.max, argon2Load.now);
  argon2(algorithm, parameters, (error, tag) => {
    argon2Load.now -= 1;
    done(error, tag);
  });
};
syncBuiltinESMExports();
