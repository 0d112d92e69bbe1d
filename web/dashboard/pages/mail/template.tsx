import { keepPreviousData, useMutation, useQuery } from '@tanstack/react-query';
import { type FormEvent, useEffect, useState } from 'react';
import { Link } from 'wouter';
import { call } from '../../client/api.ts';
import { useChange } from '../../client/change.ts';
import { useDraft } from '../../client/draft.ts';
import { fieldOf } from '../../client/form.ts';
import { atLeast, useProject } from '../../client/project.ts';
import type { Operations } from '../../client/types.ts';
import { Confirm } from '../../components/dialog.tsx';
import { Failure } from '../../components/failure.tsx';

type Template = Operations['GET /projects/{project_id}/email/templates/{type}']['answer'];

interface Edited {
  readonly subject: string;
  readonly html_body: string;
  readonly enabled: boolean;
}

const editedOf = ({ subject, html_body: body, enabled }: Template): Edited => ({ subject, html_body: body, enabled });

const parsed = (text: string, saved: Edited): Edited => {
  try {
    return { ...saved, ...(JSON.parse(text) as Partial<Edited>) };
  } catch {
    return saved;
  }
};

const pauseMs = 400;

const useSettled = (value: string): string => {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), pauseMs);
    return () => clearTimeout(timer);
  }, [value]);
  return settled;
};

/** The mail as its reader sees it, in a frame that runs nothing. */
const Preview = ({ type, edited }: { readonly type: Template['type']; readonly edited: Edited }) => {
  const { project } = useProject();
  const text = useSettled(JSON.stringify({ subject: edited.subject, html_body: edited.html_body }));
  const preview = useQuery({
    queryKey: ['template-preview', project.id, type, text],
    queryFn: ({ signal }) =>
      call('POST /projects/{project_id}/email/templates/{type}/preview', {
        params: { project_id: project.id, type },
        body: { ...(JSON.parse(text) as Pick<Edited, 'subject' | 'html_body'>), keep: true },
        signal,
      }),
    placeholderData: keepPreviousData,
    // The server keeps one preview: an older one must not be taken for it.
    gcTime: 0,
    retry: false,
  });
  const { data, dataUpdatedAt: at } = preview;
  return (
    <section className="mail-preview" aria-label="Preview">
      <h2>Preview</h2>
      {preview.error && <Failure error={preview.error} />}
      {data !== undefined && (
        <>
          <p>
            <span className="muted">Subject</span> <strong>{data.subject}</strong>
          </p>
          {data.missing.length > 0 && (
            <p role="alert" className="bad">
              Nothing fills in:{' '}
              {data.missing.map((name) => (
                <code key={name}>{`{{${name}}} `}</code>
              ))}
            </p>
          )}
          <iframe
            key={at}
            title="The mail as its reader sees it"
            sandbox=""
            src={`/projects/${project.id}/email/templates/${type}/preview?draft=true&at=${at}`}
          />
          <details>
            <summary>As text</summary>
            <pre>{data.text}</pre>
          </details>
        </>
      )}
    </section>
  );
};

const SendTest = ({ type }: { readonly type: Template['type'] }) => {
  const { project } = useProject();
  const send = useMutation({
    mutationFn: (email: string) =>
      call('POST /projects/{project_id}/email/templates/{type}/send-test', {
        params: { project_id: project.id, type },
        body: { email },
      }),
  });
  const submit = (event: FormEvent<HTMLFormElement>): void => {
    event.preventDefault();
    send.mutate(fieldOf(event.currentTarget, 'email'));
  };
  return (
    <form className="row" onSubmit={submit}>
      <label className="inline">
        Send the saved one, filled in with samples, to
        <input name="email" type="email" required maxLength={320} />
      </label>
      <button type="submit" disabled={send.isPending}>
        {send.isPending ? 'Sending…' : 'Send'}
      </button>
      <span role="status">{send.isSuccess ? 'Sent.' : ''}</span>
      {send.error && <Failure error={send.error} />}
    </form>
  );
};

const Editor = ({ template, mayWrite }: { readonly template: Template; readonly mayWrite: boolean }) => {
  const { project } = useProject();
  const { type } = template;
  const params = { project_id: project.id, type };
  const [isResetting, setResetting] = useState(false);
  const saved = editedOf(template);
  const draft = useDraft(`${project.id}:template:${type}`, JSON.stringify(saved));
  const edited = parsed(draft.text, saved);
  const set = (change: Partial<Edited>): void => draft.change(JSON.stringify({ ...edited, ...change }));
  const stale = [
    ['template', project.id, type],
    ['templates', project.id],
  ];
  const save = useChange(
    (text: string) => call('PUT /projects/{project_id}/email/templates/{type}', { params, body: parsed(text, saved) }),
    { stale, onRead: draft.forgetSaved },
  );
  const reset = useChange(
    () => call('POST /projects/{project_id}/email/templates/{type}/reset', { params, body: {} }),
    {
      stale,
      onDone: () => setResetting(false),
      onRead: draft.forget,
    },
  );
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    save.mutate(draft.text);
  };
  return (
    <>
      <div className="beside mail-editor">
        <form className="fill" onSubmit={submit}>
          <fieldset disabled={!mayWrite}>
            <legend className="unseen">Template</legend>
            <label>
              Subject
              <input value={edited.subject} required onChange={({ target }) => set({ subject: target.value })} />
            </label>
            <label>
              Text, as HTML
              <textarea
                rows={18}
                required
                spellCheck={false}
                value={edited.html_body}
                onChange={({ target }) => set({ html_body: target.value })}
              />
            </label>
            <p className="muted">
              Filled in:{' '}
              {template.variables.map((name) => (
                <code key={name}>{`{{${name}}} `}</code>
              ))}
            </p>
            <label className="inline spaced">
              <input
                type="checkbox"
                checked={edited.enabled}
                onChange={({ target }) => set({ enabled: target.checked })}
              />
              This mail is sent
            </label>
            {save.error && <Failure error={save.error} />}
            <p className="row">
              <button type="submit" className="primary" disabled={save.isPending || !draft.isChanged}>
                Save the template
              </button>
              {draft.isChanged && (
                <button type="button" onClick={draft.forget}>
                  Undo
                </button>
              )}
              {!template.is_default && (
                <button type="button" onClick={() => setResetting(true)}>
                  Back to the usual text
                </button>
              )}
              <span role="status">{save.isSuccess && !draft.isChanged ? 'Saved.' : ''}</span>
            </p>
          </fieldset>
        </form>
        <Preview type={type} edited={edited} />
      </div>
      {mayWrite && <SendTest type={type} />}
      {isResetting && (
        <Confirm
          title="Back to the usual text?"
          action="Back to the usual text"
          onConfirm={() => reset.mutate(undefined)}
          onClose={() => setResetting(false)}
        >
          <p>Your own subject and text are deleted.</p>
          {reset.error && <Failure error={reset.error} />}
        </Confirm>
      )}
    </>
  );
};

/** One mail: its text, and beside it what the reader sees. */
export const TemplatePage = ({ type }: { readonly type: string }) => {
  const { project, role } = useProject();
  const template = useQuery({
    queryKey: ['template', project.id, type],
    queryFn: () =>
      call('GET /projects/{project_id}/email/templates/{type}', { params: { project_id: project.id, type } }),
    refetchOnWindowFocus: false,
  });
  const mayWrite = atLeast(role, 'developer');
  return (
    <>
      <p>
        <Link href={`/projects/${project.id}/mail`}>Mail</Link>
      </p>
      <h1>{type}</h1>
      {!mayWrite && <p className="muted">Templates are changed by developers, admins and owners.</p>}
      {template.error && <Failure error={template.error} onRetry={() => void template.refetch()} />}
      {template.data !== undefined && <Editor template={template.data} mayWrite={mayWrite} />}
    </>
  );
};
