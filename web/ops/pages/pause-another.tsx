import { useRef, useState } from 'react';
import { ApiError } from '../../dashboard/client/api.ts';
import { oneOf } from '../../dashboard/client/filters.ts';
import { fieldOf } from '../../dashboard/client/form.ts';
import { type JobType, call } from '../client/api.ts';
import { useJobTypes } from '../client/session.ts';
import { listText, numberText } from '../client/words.ts';
import { Ask } from '../components/ask.tsx';
import { TextField, TypeChoice } from '../components/fields.tsx';
import { Switch } from './switch.tsx';

interface Found {
  readonly project_id: string;
  readonly name: string;
  readonly waiting: number;
  readonly running: number;
}

/** @throws {ApiError} when no project has that name, or several have it */
const findOne = async (project: string, type: JobType | undefined): Promise<Found> => {
  const { projects: found } = await call('GET /ops/api/projects/search', { query: { project, ...(type && { type }) } });
  const [one, ...others] = found;
  if (one === undefined) throw new ApiError(404, { message: 'There is no such project.' });
  if (others.length === 0) return one;
  const refs = listText(found.map(({ ref }) => ref));
  throw new ApiError(409, {
    message: `${numberText(found.length)} projects have that name. Give the ref of one: ${refs}.`,
  });
};

interface Target {
  readonly project: Found;
  /** Undefined: all of them. */
  readonly type: JobType | undefined;
}

interface PauseAnotherProps {
  readonly refresh: () => Promise<unknown>;
  readonly onClose: () => void;
}

/** Pauses a project that is not in the list: first it is found, then its jobs are named in the question. */
export const PauseAnother = ({ refresh, onClose }: PauseAnotherProps) => {
  const types = useJobTypes();
  const answer = useRef<Target | null>(null);
  const [found, setFound] = useState<Target | null>(null);
  if (found === null)
    return (
      <Ask
        title="Pause another project"
        text="One that is not in the list; it is listed from then on. Without a type, all its types are paused."
        action="Continue"
        onClose={(isDone) => (isDone ? setFound(answer.current) : onClose())}
        work={async (form) => {
          const type = oneOf(types, fieldOf(form, 'type'));
          answer.current = { project: await findOne(fieldOf(form, 'project').trim(), type), type };
        }}
      >
        <TextField name="project" label="Project" required placeholder="name, slug, ref or id" />
        <TypeChoice value="" />
      </Ask>
    );
  const { project, type } = found;
  return (
    <Switch
      action="pause"
      what={type === undefined ? `${project.name} in all its types` : `${type} of ${project.name}`}
      counts={project}
      others={type === undefined ? 'Other projects go on.' : 'Its other types and other projects go on.'}
      onClose={onClose}
      work={async () => {
        await call('POST /ops/api/projects/{project_id}/pause', {
          params: { project_id: project.project_id },
          body: type === undefined ? {} : { type },
        });
        await refresh();
      }}
    />
  );
};
