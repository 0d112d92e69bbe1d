import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { useLocation } from 'wouter';
import { call } from '../../client/api.ts';
import { copyText } from '../../client/clipboard.ts';
import type { Operations } from '../../client/types.ts';
import { Copyable } from '../../components/copyable.tsx';
import { Dialog } from '../../components/dialog.tsx';
import { Failure } from '../../components/failure.tsx';

type Example = Operations['GET /projects/examples']['answer']['examples'][number];
type Made = NonNullable<Operations['POST /projects']['answer']>;

const languages = [
  ['javascript', 'JavaScript'],
  ['python', 'Python'],
  ['curl', 'curl'],
] as const;

/** The programs of an example, with the values of the project in them. */
const Programs = ({ code, values }: Pick<Example, 'code'> & { readonly values: Readonly<Record<string, string>> }) => {
  const [language, setLanguage] = useState<keyof Example['code']>('javascript');
  const [isCopied, setCopied] = useState(false);
  const filled = code[language].replaceAll(/\{\{(\w+)\}\}/g, (given, name: string) => values[name] ?? given);
  const copy = async (): Promise<void> => {
    await copyText(filled);
    setCopied(true);
  };
  return (
    <>
      <div className="row" role="group" aria-label="Language">
        {languages.map(([name, label]) => (
          <button
            key={name}
            type="button"
            aria-pressed={name === language}
            onClick={() => {
              setLanguage(name);
              setCopied(false);
            }}
          >
            {label}
          </button>
        ))}
        <button type="button" onClick={() => void copy()}>
          {isCopied ? 'Copied' : 'Copy the program'}
        </button>
      </div>
      {/* oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- what scrolls must be reachable by keyboard */}
      <pre tabIndex={0} role="region" aria-label={`Program in ${language}`}>
        {filled}
      </pre>
    </>
  );
};

interface ResultProps {
  readonly example: Example;
  readonly made: Made;
  /** The values that the programs need beside the keys; undefined until the tables and functions exist. */
  readonly values: Readonly<Record<string, string>> | undefined;
  readonly error: unknown;
  readonly onRetry: () => void;
  readonly onClose: () => void;
}

/** A project that was made for an example: its keys, which are shown once, and the programs that call it. */
const Result = ({ example, made, values, error, onRetry, onClose }: ResultProps) => {
  const keys = {
    rest_url: made.rest_url,
    publishable_key: made.publishable_key ?? '',
    secret_key: made.api_key ?? '',
  };
  return (
    <Dialog title={example.title} onClose={onClose}>
      {Boolean(error) && <Failure error={error} onRetry={onRetry} />}
      {!values && !error && <p role="status">Making its tables and functions…</p>}
      <p>These two keys are shown once. The secret key is the project itself: it belongs on servers only.</p>
      <Copyable label="Secret key" text={keys.secret_key} />
      <Copyable label="Publishable key" text={keys.publishable_key} />
      {values && (
        <>
          <h3>Call it</h3>
          <Programs code={example.code} values={{ ...keys, ...values }} />
        </>
      )}
      <p className="row end">
        <button type="button" className="primary" onClick={onClose}>
          Open the project
        </button>
      </p>
    </Dialog>
  );
};

/** Makes the project first, then what the example has; the second step can be repeated until it is whole. */
const useMaking = (orgId: string | undefined) => {
  const fill = useMutation({
    mutationFn: ({ example, made }: { example: Example; made: Made }) =>
      call('POST /projects/{project_id}/examples/{example}', {
        params: { project_id: made.id, example: example.name },
        body: {},
      }),
  });
  const make = useMutation({
    mutationFn: async (example: Example) => {
      const body = { name: example.title, ...(orgId !== undefined && { org_id: orgId }) };
      const made = await call('POST /projects', { body });
      if (made === undefined) throw new Error('The project is still being made. It stands in the list in a moment.');
      return { example, made };
    },
    onSuccess: (both) => fill.mutate(both),
  });
  return { make, fill };
};

/** Three projects that work, each made with one click. */
export const Examples = () => {
  const queries = useQueryClient();
  const [, go] = useLocation();
  const examples = useQuery({
    queryKey: ['examples'],
    queryFn: () => call('GET /projects/examples', {}),
    staleTime: Infinity,
  });
  const orgs = useQuery({ queryKey: ['orgs'], queryFn: () => call('GET /team/orgs', {}) });
  const mine = (orgs.data ?? []).filter(({ role }) => role !== 'viewer');
  const org = mine.find(({ is_own: isOwn }) => isOwn) ?? mine[0];
  const { make, fill } = useMaking(org?.org_id);
  if (org === undefined) return null;
  const both = make.data;
  return (
    <section aria-label="Examples">
      {(examples.error ?? make.error) && <Failure error={examples.error ?? make.error} />}
      <ul className="examples">
        {examples.data?.examples.map((example) => (
          <li key={example.name}>
            <h3>{example.title}</h3>
            <p>{example.summary}</p>
            <ul className="muted">
              {example.makes.map((line) => (
                <li key={line}>{line}</li>
              ))}
            </ul>
            <button type="button" disabled={make.isPending} onClick={() => make.mutate(example)}>
              {make.isPending && make.variables.name === example.name
                ? 'Making its database…'
                : `Make the ${example.title.toLowerCase()}`}
            </button>
          </li>
        ))}
      </ul>
      {both && (
        <Result
          {...both}
          values={fill.data && (fill.data.values ?? {})}
          error={fill.error}
          onRetry={() => fill.mutate(both)}
          onClose={() => {
            void queries.invalidateQueries({ queryKey: ['projects'] });
            go(`/projects/${both.made.id}`);
          }}
        />
      )}
    </section>
  );
};
