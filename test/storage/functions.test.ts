import test from 'ava';
import { dataOf, useStorage } from './storage-scene.ts';

const { admin, developer, newProject, platform } = useStorage(test);

const run = async (code: string, language: 'javascript' | 'python') => {
  const of = await newProject();
  const { client } = platform();
  const fn = await client.deploy(developer(), of, code, { language, entry_point: 'handler' });
  const { body } = await client.invoke(developer(), of, fn, {});
  return { of, body };
};

const javascript = `
export async function handler(_payload, sdk) {
  const made = await sdk.storage.upload('a/text.txt', 'hello ä');
  async function* pieces() { for (let i = 0; i < 8; i += 1) yield new Uint8Array(300_000).fill(i); }
  await sdk.storage.upload('a/large', pieces(), { contentType: 'image/png' });
  const again = await sdk.storage.upload('a/text.txt', 'x').catch((error) => [error.name, error.code]);
  await sdk.storage.upload('a/text.txt', 'replaced', { upsert: true });
  const large = await sdk.storage.download('a/large');
  let size = 0;
  for await (const piece of large.body) size += piece.length;
  const none = await sdk.storage.download('none').catch((error) => [error.name, error.code]);
  return {
    path: made.path, again, none, size, type: large.headers.get('content-type'),
    text: await (await sdk.storage.download('a/text.txt')).text(),
    names: (await sdk.storage.list('a')).map(({ name }) => name),
    url: await sdk.storage.signedUrl('a/text.txt', 60),
    removed: await sdk.storage.remove(['a/large', 'none']),
  };
}`;

const python = `
def handler(payload, sdk):
    made = sdk.storage.upload('a/text.txt', 'hello ä')
    sdk.storage.upload('a/large', (bytes([i]) * 300_000 for i in range(8)), content_type='image/png')
    def code(work):
        try:
            work()
        except sdk.storage.StorageError as error:
            return [type(error).__name__, error.code]
    again = code(lambda: sdk.storage.upload('a/text.txt', 'x'))
    sdk.storage.upload('a/text.txt', b'replaced', upsert=True)
    large = sdk.storage.download('a/large')
    size = sum(len(piece) for piece in large)
    return {
        'path': made['path'], 'again': again, 'none': code(lambda: sdk.storage.download('none')), 'size': size,
        'type': large.content_type, 'text': sdk.storage.download('a/text.txt').text(),
        'names': [entry['name'] for entry in sdk.storage.list('a')],
        'url': sdk.storage.signed_url('a/text.txt', 60), 'removed': sdk.storage.remove(['a/large', 'none']),
    }
`;

for (const [language, code] of [
  ['javascript', javascript],
  ['python', python],
] as const)
  test(`functions in ${language} upload, download, list, remove and sign files, in pieces`, async (t) => {
    const { of, body } = await run(code, language);
    const { url, ...result } = (body.result ?? {}) as Record<string, unknown>;
    t.deepEqual(
      result,
      {
        path: 'a/text.txt',
        again: ['StorageError', 'conflict'],
        none: ['StorageError', 'not_found'],
        size: 2_400_000,
        type: 'image/png',
        text: 'replaced',
        names: ['large', 'text.txt'],
        removed: ['a/large'],
      },
      JSON.stringify(body),
    );
    const path = new URL(String(url));
    t.is(await (await fetch(`${platform().base}${path.pathname}${path.search}`)).text(), 'replaced');
    t.deepEqual(
      dataOf(await admin(of).from(of.slug).list('a')).map(({ name }) => name),
      ['text.txt'],
    );
  });
