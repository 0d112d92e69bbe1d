import type { FormEvent } from 'react';
import { call } from '../../client/api.ts';
import { useChange } from '../../client/change.ts';
import { fieldOf } from '../../client/form.ts';
import { useProject } from '../../client/project.ts';
import type { Operations } from '../../client/types.ts';
import { Dialog } from '../../components/dialog.tsx';
import { Failure } from '../../components/failure.tsx';
import { Field } from '../../components/field.tsx';

type Body = Operations['POST /projects/{project_id}/segments']['body'];

interface NewSegmentProps {
  readonly onMade: (key: string) => void;
  readonly onClose: () => void;
}

/** A segment of conditions begins with one that nobody fulfils by chance: without any, everybody would belong to it. */
const firstCondition = { attribute: 'plan', operator: 'in', values: ['pro'] };

/** Makes a segment of conditions, or of a list of keys that is empty at first. */
export const NewSegment = ({ onMade, onClose }: NewSegmentProps) => {
  const { project } = useProject();
  const make = useChange(
    (body: Body) => call('POST /projects/{project_id}/segments', { params: { project_id: project.id }, body }),
    { stale: [['segments', project.id]], onDone: ({ key }) => onMade(key) },
  );
  const submit = (event: FormEvent<HTMLFormElement>): void => {
    event.preventDefault();
    const form = event.currentTarget;
    const name = fieldOf(form, 'name');
    make.mutate({
      key: fieldOf(form, 'key'),
      ...(name !== '' && { name }),
      ...(fieldOf(form, 'kind') === 'keys' ? { keys: [] } : { conditions: [firstCondition] }),
    });
  };
  return (
    <Dialog title="New segment" onClose={onClose}>
      <form onSubmit={submit}>
        <Field label="Key, as rules name it" at="key" error={make.error}>
          {(given) => (
            <input
              {...given}
              name="key"
              required
              pattern="[a-z0-9][a-z0-9._\-]{0,99}"
              placeholder="testers"
              autoComplete="off"
            />
          )}
        </Field>
        <Field label="Name" at="name" error={make.error}>
          {(given) => <input {...given} name="name" maxLength={100} />}
        </Field>
        <label>
          Who belongs to it
          <select name="kind">
            <option value="conditions">everybody whose attributes fulfil conditions</option>
            <option value="keys">a list of targeting keys</option>
          </select>
        </label>
        {make.error && <Failure error={make.error} fields={['key', 'name']} />}
        <p className="row end">
          <button type="button" onClick={onClose}>
            Cancel
          </button>
          <button type="submit" className="primary" disabled={make.isPending}>
            Create the segment
          </button>
        </p>
      </form>
    </Dialog>
  );
};
