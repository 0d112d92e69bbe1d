import { useQuery } from '@tanstack/react-query';
import { type FormEvent, useState } from 'react';
import { call } from '../../client/api.ts';
import { useDraft } from '../../client/draft.ts';
import { fieldOf } from '../../client/form.ts';
import { useProject } from '../../client/project.ts';
import { useSearch } from '../../client/search.ts';
import type { Operations } from '../../client/types.ts';
import { Failure } from '../../components/failure.tsx';
import { type Answer, useAnswers } from './answers.ts';
import { usdText } from './money.ts';
import { usePrompts } from './prompts.ts';

type Model = Operations['GET /projects/{project_id}/ai/models']['answer']['models'][number];

const maxModels = 4;

const idOf = ({ provider, id }: Model): string => `${provider}/${id}`;

const useModels = () => {
  const { project } = useProject();
  return useQuery({
    queryKey: ['models', project.id],
    queryFn: () => call('GET /projects/{project_id}/ai/models', { params: { project_id: project.id } }),
    staleTime: 60_000,
  });
};

const costOf = ({ tokens }: Answer, model: Model | undefined): number | null =>
  tokens === null || !model?.price
    ? null
    : (tokens.prompt * model.price.input + tokens.completion * model.price.output) / 1e6;

const secondsText = (ms: number | null): string => (ms === null ? '–' : `${(ms / 1000).toFixed(2)} s`);

/** One model's answer, with what it took. */
const AnswerCard = ({ answer, model }: { readonly answer: Answer; readonly model: Model | undefined }) => {
  const cost = costOf(answer, model);
  return (
    <section className="answer" aria-label={`Answer of ${answer.model}`} aria-busy={!answer.isDone}>
      <h2>{answer.model}</h2>
      {/* oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- what scrolls must be reachable by keyboard */}
      <pre tabIndex={0} role="region" aria-label={`Text of ${answer.model}`}>
        {answer.text}
      </pre>
      {answer.error !== null && (
        <p className="bad" role="alert">
          {answer.error}
        </p>
      )}
      <dl className="metrics">
        <div>
          <dt>First word</dt>
          <dd>{secondsText(answer.firstMs)}</dd>
        </div>
        <div>
          <dt>Whole</dt>
          <dd>{secondsText(answer.wholeMs)}</dd>
        </div>
        <div>
          <dt>Tokens</dt>
          <dd>{answer.tokens ? `${answer.tokens.prompt} + ${answer.tokens.completion}` : '–'}</dd>
        </div>
        <div>
          <dt>Cost</dt>
          <dd>{cost === null ? '–' : usdText(cost)}</dd>
        </div>
      </dl>
    </section>
  );
};

interface PickerProps {
  readonly models: readonly Model[];
  readonly chosen: readonly string[];
  readonly onChange: (chosen: readonly string[]) => void;
}

/** One model, or two to four that answer side by side; one may be named twice. */
const ModelPicker = ({ models, chosen, onChange }: PickerProps) => (
  <div className="row" role="group" aria-label="Models">
    {chosen.map((value, place) => (
      // oxlint-disable-next-line react/no-array-index-key -- one model may stand twice
      <span key={place} className="row">
        <select
          aria-label={`Model ${place + 1}`}
          value={value}
          onChange={({ target }) => onChange(chosen.with(place, target.value))}
        >
          {models.map((model) => (
            <option key={idOf(model)}>{idOf(model)}</option>
          ))}
        </select>
        {chosen.length > 1 && (
          <button
            type="button"
            className="quiet"
            aria-label={`Remove model ${place + 1}`}
            onClick={() => onChange(chosen.toSpliced(place, 1))}
          >
            Remove
          </button>
        )}
      </span>
    ))}
    {chosen.length < maxModels && (
      <button
        type="button"
        onClick={() => {
          const other = models.find((model) => !chosen.includes(idOf(model))) ?? models[0];
          if (other) onChange([...chosen, idOf(other)]);
        }}
      >
        Compare with another model
      </button>
    )}
  </div>
);

const numberOf = (text: string): number | null => (text.trim() === '' ? null : Number(text));

interface SavedProps {
  readonly current: { readonly system: string; readonly message: string };
  readonly onLoad: (prompt: { readonly system: string; readonly message: string }) => void;
}

/** Prompts by name; they are kept in this browser. */
const SavedPrompts = ({ current, onLoad }: SavedProps) => {
  const { project } = useProject();
  const { prompts, save, remove } = usePrompts(project.id);
  const submit = (event: FormEvent<HTMLFormElement>): void => {
    event.preventDefault();
    save({ ...current, name: fieldOf(event.currentTarget, 'name').trim() });
    event.currentTarget.reset();
  };
  return (
    <details className="prompts">
      <summary>Saved prompts ({prompts.length})</summary>
      <form className="row" onSubmit={submit}>
        <label className="inline">
          Name
          <input name="name" required maxLength={100} pattern=".*\S.*" />
        </label>
        <button type="submit">Save this prompt</button>
        <span className="muted">They are kept in this browser.</span>
      </form>
      <ul>
        {prompts.map((prompt) => (
          <li key={prompt.name} className="row">
            <bdi>{prompt.name}</bdi>
            <button type="button" aria-label={`Use ${prompt.name}`} onClick={() => onLoad(prompt)}>
              Use
            </button>
            <button type="button" aria-label={`Delete ${prompt.name}`} onClick={() => remove(prompt.name)}>
              Delete
            </button>
          </li>
        ))}
      </ul>
    </details>
  );
};

const Desk = ({ models }: { readonly models: readonly Model[] }) => {
  const { project } = useProject();
  const [search, setSearch] = useSearch();
  const system = useDraft(`ai-system:${project.id}`, '');
  const message = useDraft(`ai-message:${project.id}`, '');
  const [shaping, setShaping] = useState({ temperature: '', maxTokens: '' });
  const { answers, failure, isRunning, ask, stop } = useAnswers();
  const named = search.getAll('model').filter((id) => models.some((model) => idOf(model) === id));
  const [first] = models;
  const chosen = named.length > 0 ? named.slice(0, maxModels) : first ? [idOf(first)] : [];
  const choose = (next: readonly string[]): void =>
    setSearch((known) => {
      known.delete('model');
      for (const id of next) known.append('model', id);
      return known;
    });
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    void ask({
      models: chosen,
      system: system.text,
      message: message.text,
      temperature: numberOf(shaping.temperature),
      maxTokens: numberOf(shaping.maxTokens),
    });
  };
  return (
    <>
      <form onSubmit={submit}>
        <ModelPicker models={models} chosen={chosen} onChange={choose} />
        <label>
          System
          <textarea rows={2} value={system.text} onChange={({ target }) => system.change(target.value)} dir="auto" />
        </label>
        <label>
          Message
          <textarea
            rows={5}
            required
            value={message.text}
            onChange={({ target }) => message.change(target.value)}
            onKeyDown={(event) => {
              if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) event.currentTarget.form?.requestSubmit();
            }}
            dir="auto"
          />
        </label>
        <div className="row">
          <label className="inline">
            Temperature
            <input
              type="number"
              min={0}
              max={2}
              step={0.1}
              value={shaping.temperature}
              onChange={({ target }) => setShaping({ ...shaping, temperature: target.value })}
            />
          </label>
          <label className="inline">
            Tokens at most
            <input
              type="number"
              min={1}
              value={shaping.maxTokens}
              onChange={({ target }) => setShaping({ ...shaping, maxTokens: target.value })}
            />
          </label>
          <button type="submit" className="primary" disabled={isRunning}>
            {chosen.length > 1 ? `Ask ${chosen.length} models` : 'Ask'}
          </button>
          {isRunning && (
            <button type="button" onClick={stop}>
              Stop
            </button>
          )}
          <span className="muted">Ctrl-Enter asks, too.</span>
        </div>
      </form>
      <SavedPrompts
        current={{ system: system.text, message: message.text }}
        onLoad={(prompt) => {
          system.change(prompt.system);
          message.change(prompt.message);
        }}
      />
      {Boolean(failure) && <Failure error={failure} />}
      <div className="answers" data-count={answers.length}>
        {answers.map((answer, place) => (
          <AnswerCard
            // oxlint-disable-next-line react/no-array-index-key -- one model may stand twice
            key={place}
            answer={answer}
            model={models.find((model) => idOf(model) === answer.model)}
          />
        ))}
      </div>
    </>
  );
};

/** Asks models, one by itself or several side by side. */
export const Playground = () => {
  const models = useModels();
  if (models.data === undefined && models.error)
    return <Failure error={models.error} onRetry={() => void models.refetch()} />;
  if (models.data === undefined) return <p className="loading">Loading the models…</p>;
  const chats = models.data.models.filter(({ type }) => type === 'chat');
  return (
    <>
      {models.data.failed?.map(({ provider, message }) => (
        <p key={provider} className="bad" role="alert">
          {provider}: {message}
        </p>
      ))}
      {chats.length === 0 ? (
        <p className="empty">No model yet: add the key of a provider under “Providers”.</p>
      ) : (
        <Desk models={chats} />
      )}
    </>
  );
};
