import test from 'ava';
import { hashPassword, verifyPassword } from '#domain/accounts/passwords.ts';

test('a flood of passwords in one project does not hold up another one, or the platform', async (t) => {
  let done = 0;
  const flood = Array.from({ length: 60 }, () =>
    hashPassword('correct horse battery', 'noisy').then(() => (done += 1)),
  );
  const hash = await hashPassword('correct horse battery', 'quiet');
  t.true(done < 10, `${done} of the others came first`);
  t.true(await verifyPassword('correct horse battery', hash));
  t.true(done < 15, `${done} of the others came first`);
  await Promise.all(flood);
});

test('a project has five hundred passwords waiting at most, and another one is served', async (t) => {
  const flood = Array.from({ length: 520 }, () => hashPassword('correct horse battery', 'flooded'));
  const refused = Promise.allSettled(flood).then((ends) => ends.filter(({ status }) => status === 'rejected'));
  t.true((await hashPassword('correct horse battery', 'another')).startsWith('$argon2id$'));
  t.true((await refused).length >= 18);
});
