import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { Link } from 'wouter';
import { call } from '../../client/api.ts';
import { atLeast, useProject } from '../../client/project.ts';
import { Failure } from '../../components/failure.tsx';
import { Tabs, useTab } from '../../components/tabs.tsx';
import { Editor } from './editor.tsx';
import { Runner } from './runner.tsx';
import { Runs } from './runs.tsx';
import { Settings } from './settings.tsx';
import { Snippets } from './snippets.tsx';
import { type Fn, useDraft } from './source.ts';
import { Triggers } from './triggers.tsx';
import { Versions } from './versions.tsx';

const tabs = {
  code: 'Code',
  runs: 'Runs',
  versions: 'Versions',
  triggers: 'Triggers',
  settings: 'Settings',
  call: 'Call it',
} as const;

const OpenFunction = ({ fn }: { readonly fn: Fn }) => {
  const { project, role } = useProject();
  const tab = useTab(tabs);
  const draft = useDraft(fn);
  const [pressed, setPressed] = useState(0);
  const mayRun = atLeast(role, 'developer');
  return (
    <>
      <p>
        <Link href={`/projects/${project.id}/functions`}>All functions</Link>
      </p>
      <h1>{fn.name}</h1>
      <p className="muted">
        <code>
          {project.rest_url}/functions/v1/{fn.slug}
        </code>
      </p>
      <Tabs label="Parts of the function" tabs={tabs} current={tab} />
      {tab === 'code' && (
        <>
          <Editor fn={fn} draft={draft} onRun={() => mayRun && setPressed((count) => count + 1)} />
          {mayRun && <Runner fn={fn} draft={draft} pressed={pressed} />}
        </>
      )}
      {tab === 'runs' && <Runs fn={fn} />}
      {tab === 'versions' && <Versions fn={fn} draft={draft} />}
      {tab === 'triggers' && <Triggers fn={fn} />}
      {tab === 'settings' && <Settings fn={fn} />}
      {tab === 'call' && <Snippets fn={fn} />}
    </>
  );
};

/** One function: its code, its runs, its versions and whatever else belongs to it. */
export const FunctionPage = ({ id }: { readonly id: string }) => {
  const { project } = useProject();
  const fn = useQuery({
    queryKey: ['function', id],
    queryFn: () => call('GET /projects/{project_id}/functions/{id}', { params: { project_id: project.id, id } }),
  });
  if (fn.data === undefined && fn.error) return <Failure error={fn.error} onRetry={() => void fn.refetch()} />;
  if (fn.data === undefined) return <p className="loading">Loading…</p>;
  return (
    <>
      {fn.error && <Failure error={fn.error} onRetry={() => void fn.refetch()} />}
      <OpenFunction key={id} fn={fn.data} />
    </>
  );
};
