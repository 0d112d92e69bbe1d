import { useProject } from '../../client/project.ts';
import { Copyable } from '../../components/copyable.tsx';
import type { Fn } from './source.ts';

const accessTexts: Readonly<Record<Fn['access'], string>> = {
  key: 'It takes any API key of the project, and its signed-in users.',
  user: 'It takes the access token of a signed-in user.',
  secret: 'It takes secret keys only: call it from a server.',
  public: 'It takes everybody, without a key.',
};

const curlHeaders: Readonly<Record<Fn['access'], string>> = {
  key: ` -H "apikey: $PLINTH_KEY"`,
  user: ` -H "apikey: $PLINTH_KEY" -H "Authorization: Bearer $USER_TOKEN"`,
  secret: ` -H "apikey: $PLINTH_SECRET_KEY"`,
  public: '',
};

const keyNames: Readonly<Record<Fn['access'], string>> = {
  key: 'PLINTH_KEY',
  user: 'PLINTH_KEY',
  secret: 'PLINTH_SECRET_KEY',
  public: 'PLINTH_KEY',
};

/** How the function is called from outside, with its address filled in. Keys are never filled in: nobody can read them. */
export const Snippets = ({ fn }: { readonly fn: Fn }) => {
  const { project } = useProject();
  const address = `${project.rest_url}/functions/v1/${fn.slug}`;
  const payload = `'{"name":"Ada"}'`;
  const curl = `curl -X POST ${address}${curlHeaders[fn.access]} -H "content-type: application/json" -d ${payload}`;
  const key = `process.env.${keyNames[fn.access]}`;
  const javascript = `import { createClient } from '@supabase/supabase-js';

const plinth = createClient('${project.rest_url}', ${key});
const { data, error } = await plinth.functions.invoke('${fn.slug}', { body: { name: 'Ada' } });`;
  const headers = fn.access === 'public' ? '' : `, headers={'apikey': os.environ['${keyNames[fn.access]}']}`;
  const python = `import os
import httpx

answer = httpx.post('${address}', json={'name': 'Ada'}${headers})
print(answer.json())`;
  return (
    <>
      <p>{accessTexts[fn.access]} A key is shown once, when it is made: put it where the name stands.</p>
      <h2>curl</h2>
      <Copyable label="curl" text={curl} />
      <h2>JavaScript</h2>
      <pre>{javascript}</pre>
      <Copyable label="Address" text={address} />
      <h2>Python</h2>
      <pre>{python}</pre>
      <h2>Later, in the background</h2>
      <Copyable
        label="curl"
        text={`curl -X POST ${new URL(project.rest_url).origin}/api/functions/${fn.slug}/jobs -H "apikey: $PLINTH_SECRET_KEY" -H "content-type: application/json" -d '{"payload":{"name":"Ada"},"delay_ms":60000}'`}
      />
    </>
  );
};
