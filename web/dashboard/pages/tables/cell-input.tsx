import { type KeyboardEvent, useEffect, useRef } from 'react';

/** Where the active cell goes after an edit. */
export type After = 'down' | 'right' | 'left' | 'stay';

interface CellInputProps {
  readonly label: string;
  readonly text: string;
  readonly onChange: (text: string) => void;
  readonly onCommit: (after: After) => void;
  readonly onCancel: () => void;
}

const ends: Readonly<Record<string, After>> = { Enter: 'down', Tab: 'right' };

/** An editor in place of a cell: Enter and Tab keep what was typed, Escape does not, Alt-Enter begins a new line. */
export const CellInput = ({ label, text, onChange, onCommit, onCancel }: CellInputProps) => {
  const input = useRef<HTMLTextAreaElement>(null);
  const isOver = useRef(false);
  useEffect(() => {
    const element = input.current;
    element?.focus({ preventScroll: true });
    element?.setSelectionRange(element.value.length, element.value.length);
  }, []);
  const end = (work: () => void): void => {
    if (isOver.current) return;
    isOver.current = true;
    work();
  };
  const press = (event: KeyboardEvent): void => {
    event.stopPropagation();
    const after = ends[event.key];
    if (event.key === 'Escape') end(onCancel);
    else if (after !== undefined && !event.altKey && !event.nativeEvent.isComposing) {
      event.preventDefault();
      end(() => onCommit(event.key === 'Tab' && event.shiftKey ? 'left' : after));
    } else if (event.key === 'Enter' && event.altKey) {
      event.preventDefault();
      onChange(`${text}\n`);
    }
  };
  return (
    <textarea
      ref={input}
      aria-label={label}
      className="cell-input"
      rows={1}
      value={text}
      onChange={({ target }) => onChange(target.value)}
      onKeyDown={press}
      onBlur={() => end(() => onCommit('stay'))}
    />
  );
};

interface CellChoiceProps {
  readonly label: string;
  readonly choices: readonly { readonly label: string; readonly value: unknown }[];
  readonly value: unknown;
  readonly onChoose: (value: unknown) => void;
  readonly onCancel: () => void;
}

/**
 * The values of an enumeration or a boolean, in place of a cell. A click chooses; by keyboard Enter, Tab or leaving does,
 * since each arrow key changes what is selected.
 */
export const CellChoice = ({ label, choices, value, onChoose, onCancel }: CellChoiceProps) => {
  const input = useRef<HTMLSelectElement>(null);
  const isOver = useRef(false);
  const isByKey = useRef(false);
  useEffect(() => input.current?.focus({ preventScroll: true }), []);
  const present = choices.findIndex((choice) => choice.value === value);
  const end = (work: () => void): void => {
    if (isOver.current) return;
    isOver.current = true;
    work();
  };
  const choose = (): void =>
    end(() => {
      const chosen = choices[Number(input.current?.value)];
      if (chosen === undefined || chosen.value === value) onCancel();
      else onChoose(chosen.value);
    });
  const press = (event: KeyboardEvent): void => {
    event.stopPropagation();
    isByKey.current = true;
    if (event.key === 'Escape') end(onCancel);
    if (event.key !== 'Enter' && event.key !== 'Tab') return;
    event.preventDefault();
    choose();
  };
  return (
    <select
      ref={input}
      aria-label={label}
      className="cell-input"
      defaultValue={present}
      onKeyDown={press}
      onPointerDown={() => {
        isByKey.current = false;
      }}
      onChange={() => {
        if (!isByKey.current) choose();
      }}
      onBlur={choose}
    >
      {present === -1 && <option value={-1} />}
      {choices.map((choice, index) => (
        <option key={choice.label} value={index}>
          {choice.label}
        </option>
      ))}
    </select>
  );
};
