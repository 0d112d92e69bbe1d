import test from 'ava';
import { hideSecrets } from '#domain/webhooks/secrets.ts';

const key = Buffer.from(Array.from({ length: 32 }, (_, n) => 255 - n * 3));
const standard = `whsec_${key.toString('base64')}`;
const own = 'my-"own"/secret\\1';

const forms = {
  'as it is sent': [standard, own],
  'without its marker': [standard.slice('whsec_'.length)],
  'in hex': [key.toString('hex'), key.toString('hex').toUpperCase(), Buffer.from(own).toString('hex')],
  'in base64': [
    key.toString('base64url'),
    Buffer.from(own).toString('base64'),
    Buffer.from(standard).toString('base64'),
  ],
  'in JSON': [JSON.stringify(own), JSON.stringify(own).replaceAll('/', String.raw`\/`)],
  'in a query': [encodeURIComponent(own), encodeURIComponent(standard)],
};

for (const [how, texts] of Object.entries(forms)) {
  test(`a secret that a receiver repeats ${how} is hidden`, (t) => {
    for (const text of texts) {
      const shown = hideSecrets(`you said ${text}, and ${text}!`, [standard, own]);
      t.regex(shown, /^you said "?•{4}=?"?, and "?•{4}=?"?!$/, text);
    }
  });
}

test('of a secret that is cut off with its text nothing stays that could be used', (t) => {
  const cut = standard.slice(0, -3);
  t.is(hideSecrets(`see ${cut}`, [standard], { isCut: true }), 'see ••••');
  t.is(hideSecrets(`see ${standard.slice(6, 20)}`, [standard], { isCut: true }), 'see ••••');
  t.is(hideSecrets('see whs', [standard], { isCut: true }), 'see whs');
});

test('anything else stays as it is', (t) => {
  const text = '{"ok":true,"signature":"v1,abc","note":"secret whsec_ key"}';
  t.is(hideSecrets(text, [standard, own]), text);
  t.is(hideSecrets(text, []), text);
  t.is(hideSecrets('/services/ok', ['/']), '/services/ok');
});
