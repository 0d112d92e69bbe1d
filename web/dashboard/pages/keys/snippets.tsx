import { useState } from 'react';
import { copyText } from '../../client/clipboard.ts';
import { useProject } from '../../client/project.ts';

type Language = 'JavaScript' | 'Python' | 'curl';

interface Parts {
  readonly url: string;
  readonly key: string;
}

const snippets: Readonly<Record<Language, (parts: Parts) => string>> = {
  JavaScript: ({ url, key }) => `import { createClient } from '@supabase/supabase-js';

const plinth = createClient('${url}', '${key}');
const { data, error } = await plinth.from('todos').select().limit(10);
console.log(data ?? error);`,
  Python: ({ url, key }) => `import requests

answer = requests.get(
    "${url}/rest/v1/todos",
    params={"limit": 10},
    headers={"apikey": "${key}"},
    timeout=10,
)
answer.raise_for_status()
print(answer.json())`,
  curl: ({ url, key }) => `curl '${url}/rest/v1/todos?limit=10' \\
  --header 'apikey: ${key}'`,
};

const languages = Object.keys(snippets) as Language[];

/** How a program asks for the rows of a table, with the project's address filled in, and the key where it is known. */
export const Snippets = ({ apiKey }: { readonly apiKey: string | null }) => {
  const { project } = useProject();
  const [language, setLanguage] = useState<Language>('JavaScript');
  const [copied, setCopied] = useState<Language | null>(null);
  const text = snippets[language]({ url: project.rest_url, key: apiKey ?? 'YOUR_API_KEY' });
  const copy = async (): Promise<void> => {
    await copyText(text);
    setCopied(language);
  };
  return (
    <section className="snippets" aria-label="Code">
      <div className="row" role="group" aria-label="Language">
        {languages.map((one) => (
          <button key={one} type="button" aria-pressed={one === language} onClick={() => setLanguage(one)}>
            {one}
          </button>
        ))}
        <button type="button" className="quiet" onClick={() => void copy()}>
          {copied === language ? 'Copied' : `Copy the ${language} code`}
        </button>
      </div>
      <pre>{text}</pre>
    </section>
  );
};
