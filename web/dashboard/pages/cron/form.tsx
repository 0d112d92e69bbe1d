import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { call } from '../../client/api.ts';
import { textOf } from '../../client/exact-json.ts';
import { fieldOf } from '../../client/form.ts';
import { useProject } from '../../client/project.ts';
import { type NewSchedule, type Schedule, misfires, overlaps, usualTimes } from './shapes.ts';

type Target = Schedule['target'];

const zones = Intl.supportedValuesOf('timeZone');
const ownZone = Intl.DateTimeFormat().resolvedOptions().timeZone;

const targetOf = (form: HTMLFormElement): Target => {
  const type = fieldOf(form, 'type');
  if (type === 'http') return { type, url: fieldOf(form, 'url').trim() };
  if (type === 'sql') return { type, sql: fieldOf(form, 'sql') };
  return { type: 'function', function_id: fieldOf(form, 'function_id') };
};

/** The body of a request from the fields below. @throws {SyntaxError} when the payload is not JSON */
export const scheduleOf = (form: HTMLFormElement): NewSchedule => {
  const payload = fieldOf(form, 'payload').trim();
  const target = targetOf(form);
  return {
    name: fieldOf(form, 'name').trim(),
    schedule: fieldOf(form, 'schedule').trim(),
    timezone: fieldOf(form, 'timezone').trim(),
    target,
    overlap: fieldOf(form, 'overlap') as Schedule['overlap'],
    misfire: fieldOf(form, 'misfire') as Schedule['misfire'],
    ...(target.type !== 'sql' && { payload: payload === '' ? null : (JSON.parse(payload) as unknown) }),
  };
};

interface TargetProps {
  readonly schedule: Schedule | undefined;
  /** The function that is chosen first. */
  readonly functionId: string | undefined;
}

const TargetFields = ({ schedule, functionId }: TargetProps) => {
  const { project } = useProject();
  const target = schedule?.target;
  const [type, setType] = useState<Target['type']>(target?.type ?? 'function');
  const functions = useQuery({
    queryKey: ['functions', project.id, 'all'],
    queryFn: () =>
      call('GET /projects/{project_id}/functions', { params: { project_id: project.id }, query: { limit: 200 } }),
  });
  const chosen = target?.type === 'function' ? target.function_id : functionId;
  return (
    <>
      <label>
        It runs
        <select name="type" value={type} onChange={({ target: field }) => setType(field.value as Target['type'])}>
          <option value="function">a function</option>
          <option value="http">a call of an address</option>
          <option value="sql">SQL</option>
        </select>
      </label>
      {type === 'function' && (
        <label>
          Function
          <select name="function_id" required key={functions.data?.total} defaultValue={chosen}>
            {functions.data?.functions.map((fn) => (
              <option key={fn.id} value={fn.id}>
                {fn.name}
              </option>
            ))}
          </select>
        </label>
      )}
      {type === 'http' && (
        <label>
          Address
          <input
            name="url"
            type="url"
            required
            maxLength={2048}
            defaultValue={target?.type === 'http' ? target.url : ''}
          />
        </label>
      )}
      {type === 'sql' && (
        <label>
          Statement
          <textarea
            name="sql"
            rows={4}
            required
            spellCheck={false}
            defaultValue={target?.type === 'sql' ? target.sql : ''}
          />
        </label>
      )}
      {type !== 'sql' && (
        <label>
          {type === 'http' ? 'Body' : 'Payload'} (JSON, optional)
          <textarea
            name="payload"
            rows={2}
            spellCheck={false}
            defaultValue={schedule === undefined || schedule.payload === null ? '' : JSON.stringify(schedule.payload)}
          />
        </label>
      )}
    </>
  );
};

const Choice = ({
  label,
  name,
  values,
  value,
}: {
  readonly label: string;
  readonly name: string;
  readonly values: Readonly<Record<string, string>>;
  readonly value: string;
}) => (
  <label>
    {label}
    <select name={name} defaultValue={value}>
      {Object.entries(values).map(([each, text]) => (
        <option key={each} value={each}>
          {text}
        </option>
      ))}
    </select>
  </label>
);

interface ScheduleFieldsProps {
  readonly schedule?: Schedule;
  readonly functionId?: string;
}

/** The fields of a schedule: what runs, and when. */
export const ScheduleFields = ({ schedule, functionId }: ScheduleFieldsProps) => {
  const [times, setTimes] = useState(schedule?.schedule ?? '0 3 * * *');
  return (
    <>
      <label>
        Name
        <input name="name" required maxLength={63} defaultValue={schedule?.name ?? ''} />
      </label>
      <TargetFields schedule={schedule} functionId={functionId} />
      <label>
        Times (minute, hour, day, month, day of the week)
        <input
          name="schedule"
          required
          maxLength={200}
          spellCheck={false}
          className="mono"
          value={times}
          onChange={({ target }) => setTimes(target.value)}
        />
      </label>
      <p className="row">
        {Object.entries(usualTimes).map(([expression, words]) => (
          <button key={expression} type="button" className="quiet" onClick={() => setTimes(expression)}>
            {words}
          </button>
        ))}
      </p>
      <label>
        Time zone
        <input name="timezone" required list="zones" defaultValue={schedule?.timezone ?? ownZone} />
      </label>
      <datalist id="zones">
        {zones.map((zone) => (
          <option key={zone} value={zone} />
        ))}
      </datalist>
      <Choice
        label="When the run before has not ended"
        name="overlap"
        values={overlaps}
        value={schedule?.overlap ?? 'skip'}
      />
      <Choice
        label="What was missed while the platform was down"
        name="misfire"
        values={misfires}
        value={schedule?.misfire ?? 'once'}
      />
    </>
  );
};

/** Describes the target of a schedule in a few words. */
export const targetText = (target: Target, nameOf: (id: string) => string): string => {
  if (target.type === 'function') return nameOf(target.function_id);
  return target.type === 'http' ? target.url : textOf(target.sql);
};
