import { useMutation, useQueryClient } from '@tanstack/react-query';
import { type FormEvent, useState } from 'react';
import { useLocation } from 'wouter';
import { call } from '../../client/api.ts';
import { fieldOf } from '../../client/form.ts';
import { atLeast, useProject } from '../../client/project.ts';
import type { Operations } from '../../client/types.ts';
import { Confirm } from '../../components/dialog.tsx';
import { Failure } from '../../components/failure.tsx';
import { Variables } from '../../components/variables.tsx';
import type { Fn } from './source.ts';

type Change = Operations['PATCH /projects/{project_id}/functions/{id}']['body'];

const accesses: Readonly<Record<Fn['access'], string>> = {
  key: 'Holders of any API key, and signed-in users',
  user: 'Signed-in users of the project',
  secret: 'Holders of a secret key: servers only',
  public: 'Everybody, without a key',
};

const useChange = (fn: Fn) => {
  const { project } = useProject();
  const queries = useQueryClient();
  return useMutation({
    mutationFn: (body: Change) =>
      call('PATCH /projects/{project_id}/functions/{id}', { params: { project_id: project.id, id: fn.id }, body }),
    onSuccess: () => queries.invalidateQueries({ queryKey: ['function', fn.id] }),
  });
};

const General = ({ fn, mayChange }: { readonly fn: Fn; readonly mayChange: boolean }) => {
  const change = useChange(fn);
  const submit = (event: FormEvent<HTMLFormElement>): void => {
    event.preventDefault();
    const form = event.currentTarget;
    const [name, entryPoint] = [fieldOf(form, 'name'), fieldOf(form, 'entry_point')];
    const [timeout, memory] = [Number(fieldOf(form, 'timeout_ms')), Number(fieldOf(form, 'memory_mb'))];
    const access = fieldOf(form, 'access') as Fn['access'];
    // A field that is left out makes no new version.
    change.mutate({
      ...(name !== fn.name && { name }),
      ...(access !== fn.access && { access }),
      ...(entryPoint !== fn.entry_point && { entry_point: entryPoint }),
      ...(timeout !== fn.timeout_ms && { timeout_ms: timeout }),
      ...(memory !== fn.memory_mb && { memory_mb: memory }),
    });
  };
  return (
    <form onSubmit={submit} key={`${fn.version} ${fn.updated_at}`}>
      <fieldset disabled={!mayChange} className="bare">
        <label>
          Name
          <input name="name" defaultValue={fn.name} required maxLength={63} />
        </label>
        <label>
          Who may call it at its address
          <select name="access" defaultValue={fn.access}>
            {Object.entries(accesses).map(([access, text]) => (
              <option key={access} value={access}>
                {text}
              </option>
            ))}
          </select>
        </label>
        <label>
          Exported handler
          <input name="entry_point" defaultValue={fn.entry_point} required spellCheck={false} />
        </label>
        <label>
          Time-out (ms)
          <input name="timeout_ms" type="number" min={100} max={300_000} defaultValue={fn.timeout_ms} required />
        </label>
        <label>
          Memory (MB)
          <input name="memory_mb" type="number" min={64} max={1024} defaultValue={fn.memory_mb} required />
        </label>
        {mayChange && (
          <p className="row">
            <button type="submit" className="primary" disabled={change.isPending}>
              Save
            </button>
            {change.isSuccess && (
              <span className="good" role="status">
                Saved.
              </span>
            )}
          </p>
        )}
      </fieldset>
      {change.error && <Failure error={change.error} />}
    </form>
  );
};

const Remove = ({ fn }: { readonly fn: Fn }) => {
  const { project } = useProject();
  const queries = useQueryClient();
  const [, go] = useLocation();
  const [isAsking, setAsking] = useState(false);
  const remove = useMutation({
    mutationFn: () =>
      call('DELETE /projects/{project_id}/functions/{id}', { params: { project_id: project.id, id: fn.id } }),
    onSuccess: async () => {
      await queries.invalidateQueries({ queryKey: ['functions', project.id] });
      go(`/projects/${project.id}/functions`);
    },
  });
  return (
    <div className="ending">
      <button type="button" className="danger" onClick={() => setAsking(true)}>
        Delete the function
      </button>
      {isAsking && (
        <Confirm
          title={`Delete ${fn.name}?`}
          action="Delete the function"
          onClose={() => setAsking(false)}
          onConfirm={() => remove.mutate()}
        >
          <p>Its code and its versions are gone then, its address answers 404, and its triggers and schedules stop.</p>
          {remove.error && <Failure error={remove.error} />}
        </Confirm>
      )}
    </div>
  );
};

/** Name, access, limits and variables of a function. */
export const Settings = ({ fn }: { readonly fn: Fn }) => {
  const { role } = useProject();
  const change = useChange(fn);
  const mayChange = atLeast(role, 'developer');
  return (
    <>
      {!mayChange && <p className="muted">Developers, admins and owners change functions.</p>}
      <General fn={fn} mayChange={mayChange} />
      <section aria-label="Variables">
        <h2>Variables</h2>
        <p className="muted">
          The code reads them in <code>{fn.language === 'python' ? "sdk.env['NAME']" : 'sdk.env.NAME'}</code>. A
          variable of the function goes before one of that name which all functions share.
        </p>
        <Variables
          label="Variables of the function"
          names={Object.keys(fn.env_vars).toSorted()}
          mayChange={mayChange}
          onChange={(env_vars) => change.mutateAsync({ env_vars })}
        />
      </section>
      {mayChange && <Remove fn={fn} />}
    </>
  );
};
