import { atLeast, useProject } from '../../client/project.ts';
import { Tabs, useTab } from '../../components/tabs.tsx';
import { AiCalls } from './calls.tsx';
import { Playground } from './playground.tsx';
import { Providers } from './providers.tsx';
import { AiUsage } from './usage.tsx';

const tabs = { playground: 'Playground', usage: 'Usage', calls: 'Calls', providers: 'Providers' } as const;

/** Models: asked and compared, what they cost, and the keys of their providers. */
export const AiPage = () => {
  const { role } = useProject();
  const tab = useTab(tabs);
  return (
    <>
      <h1>AI</h1>
      <Tabs label="AI" tabs={tabs} current={tab} />
      {tab === 'playground' &&
        (atLeast(role, 'developer') ? <Playground /> : <p className="muted">Models are asked by developers.</p>)}
      {tab === 'usage' && <AiUsage />}
      {tab === 'calls' && <AiCalls />}
      {tab === 'providers' && <Providers />}
    </>
  );
};
