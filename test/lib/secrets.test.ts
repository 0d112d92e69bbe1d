import { randomBytes } from 'node:crypto';
import test from 'ava';
import { SecretError, openKeyRing } from '#lib/secrets.ts';

const key = (): string => randomBytes(32).toString('base64');

test('what was sealed opens for the same owner and purpose only', (t) => {
  const ring = openKeyRing(`1:${key()}`);
  const wrapped = ring.newDataKey('project-a');
  const sealer = ring.sealerFor('project-a', wrapped);
  const sealed = sealer.seal('function:1:env', 'hunter2');
  t.is(sealer.open('function:1:env', sealed), 'hunter2');
  t.throws(() => sealer.open('function:2:env', sealed), { instanceOf: SecretError });
  t.throws(() => ring.sealerFor('project-b', wrapped), { instanceOf: SecretError });
  const other = ring.sealerFor('project-b', ring.newDataKey('project-b'));
  t.throws(() => other.open('function:1:env', sealed), { instanceOf: SecretError });
});

test('a sealed value that was changed or cut anywhere does not open', (t) => {
  const ring = openKeyRing(`1:${key()}`);
  const sealer = ring.sealerFor('p', ring.newDataKey('p'));
  const sealed = sealer.seal('x', 'hunter2');
  for (let i = 0; i < sealed.length; i += 1) {
    const changed = Buffer.from(sealed);
    changed.writeUInt8(changed.readUInt8(i) ^ 1, i);
    t.throws(() => sealer.open('x', changed), { instanceOf: SecretError });
    t.throws(() => sealer.open('x', sealed.subarray(0, i)), { instanceOf: SecretError });
  }
});

test('a damaged data key is a secret that cannot be opened', (t) => {
  const ring = openKeyRing(`1:${key()}`);
  for (const wrapped of [Buffer.alloc(0), Buffer.alloc(3), Buffer.from([0, 0, 0, 1]), Buffer.alloc(64)])
    t.throws(() => ring.sealerFor('p', wrapped), { instanceOf: SecretError });
});

test('equal texts are sealed differently each time, and any text comes back', (t) => {
  const ring = openKeyRing(`1:${key()}`);
  const sealer = ring.sealerFor('p', ring.newDataKey('p'));
  t.notDeepEqual(sealer.seal('x', 'same'), sealer.seal('x', 'same'));
  for (const text of ['', '\0', 'ü€😀', 'x'.repeat(100_000)]) t.is(sealer.open('x', sealer.seal('x', text)), text);
});

test('after a rotation old data keys still open, and new ones are wrapped with the highest number', (t) => {
  const [one, two] = [key(), key()];
  const old = openKeyRing(`1:${one}`);
  const wrapped = old.newDataKey('p');
  const sealed = old.sealerFor('p', wrapped).seal('x', 'kept');
  const rotated = openKeyRing(` 2:${two} , 1:${one}`);
  t.is(rotated.sealerFor('p', wrapped).open('x', sealed), 'kept');
  const fresh = rotated.newDataKey('p');
  t.notThrows(() => openKeyRing(`2:${two}`).sealerFor('p', fresh));
  t.throws(() => old.sealerFor('p', fresh), { instanceOf: SecretError, message: /Key 2 is missing/ });
});

const notRings = {
  nothing: '',
  'no number': key(),
  'a short key': `1:${randomBytes(31).toString('base64')}`,
  'a long key': `1:${randomBytes(33).toString('base64')}`,
  'a key that is not base64': '1:????',
  'an empty entry': `1:${key()},`,
  'the same number twice': `1:${key()},1:${key()}`,
};

for (const [what, ring] of Object.entries(notRings)) {
  test(`${what} is no key ring, and the message shows no key`, (t) => {
    const error = t.throws(() => openKeyRing(ring), { instanceOf: SecretError });
    t.false(ring.length > 10 && error.message.includes(ring.slice(2, 12)));
  });
}
