import { useMutation } from '@tanstack/react-query';
import type { FormEvent } from 'react';
import { Link } from 'wouter';
import { ApiError, call } from '../../client/api.ts';
import { fieldOf } from '../../client/form.ts';
import { useProject } from '../../client/project.ts';
import type { Operations } from '../../client/types.ts';
import { Dialog } from '../../components/dialog.tsx';
import { Failure } from '../../components/failure.tsx';
import type { ListProps } from './lists.tsx';

type Generated = Operations['POST /projects/{project_id}/ai/sql/generate']['answer'];

/** The tab of the AI page where a failure is mended, by its code. */
const remedies: Readonly<Record<string, readonly [tab: string, words: string]>> = {
  provider_not_configured: ['providers', 'Add the key of a provider'],
  provider_auth_failed: ['providers', 'Look at the keys of providers'],
  model_not_found: ['providers', 'Look at the keys of providers'],
  budget_exceeded: ['usage', 'Look at the budget'],
};

/** A failure of a model, with the way to where it is mended. */
export const AiFailure = ({ error }: { readonly error: unknown }) => {
  const { project } = useProject();
  const remedy = error instanceof ApiError ? remedies[error.code] : undefined;
  return (
    <>
      <Failure error={error} />
      {remedy && (
        <p>
          <Link href={`/projects/${project.id}/ai?tab=${remedy[0]}`}>{remedy[1]}</Link>
        </p>
      )}
    </>
  );
};

/** As comments of SQL. A carriage return alone ends a comment, too: what follows it would be a statement. */
const commentOf = (text: string): string =>
  text
    .split(/\r\n|[\n\r\u2028\u2029]/)
    .map((line) => `-- ${line}`)
    .join('\n');

const textOf = ({ sql, explanation, allowed, reasons }: Generated): string =>
  [
    ...(allowed
      ? []
      : [commentOf(`CAUTION: this does more than read. ${reasons.map(({ message }) => message).join(' ')}`)]),
    commentOf(explanation),
    sql,
  ].join('\n');

interface MarkedProps {
  readonly generated: Generated;
  readonly onOpen: () => void;
  readonly onClose: () => void;
}

/** A statement that is no query: it is shown with what it does, and opened only when somebody says so. */
const Marked = ({ generated: { sql, reasons }, onOpen, onClose }: MarkedProps) => (
  <>
    <div role="alert" className="notice warn">
      <p>
        <strong>The model wrote something that does more than read.</strong> It has not run.
      </p>
      <ul>
        {reasons.map(({ message }) => (
          <li key={message}>{message}</li>
        ))}
      </ul>
    </div>
    <pre className="sql" tabIndex={0} role="region" aria-label="The statement">
      {sql}
    </pre>
    <p className="row end">
      <button type="button" onClick={onClose}>
        Forget it
      </button>
      <button type="button" className="danger" onClick={onOpen}>
        Open it in a tab all the same
      </button>
    </p>
  </>
);

/** Has a model of the project write a query. */
export const GenerateDialog = ({ tabs, onOpened, onClose }: ListProps) => {
  const { project } = useProject();
  const open = (generated: Generated): void => onOpened(tabs.open({ text: textOf(generated) }));
  const generate = useMutation({
    mutationFn: (prompt: string) =>
      call('POST /projects/{project_id}/ai/sql/generate', { params: { project_id: project.id }, body: { prompt } }),
    onSuccess: (generated) => {
      if (generated.allowed) open(generated);
    },
  });
  const submit = (event: FormEvent<HTMLFormElement>): void => {
    event.preventDefault();
    generate.mutate(fieldOf(event.currentTarget, 'prompt'));
  };
  const { data } = generate;
  return (
    <Dialog title="Write a query" onClose={onClose}>
      {data?.allowed === false ? (
        <Marked generated={data} onOpen={() => open(data)} onClose={onClose} />
      ) : (
        <form onSubmit={submit}>
          <label>
            What do you want to know?
            <textarea name="prompt" rows={4} required autoFocus />
          </label>
          <p className="muted">A model of the project writes it into a new tab. It does not run until you run it.</p>
          {generate.error && <AiFailure error={generate.error} />}
          <p className="row end">
            <button type="button" onClick={onClose}>
              Cancel
            </button>
            <button type="submit" className="primary" disabled={generate.isPending}>
              {generate.isPending ? 'Writing…' : 'Write it'}
            </button>
          </p>
        </form>
      )}
    </Dialog>
  );
};
