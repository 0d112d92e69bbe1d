import { autocompletion } from '@codemirror/autocomplete';
import { defaultKeymap, history, historyKeymap, indentWithTab } from '@codemirror/commands';
import { javascript } from '@codemirror/lang-javascript';
import { python } from '@codemirror/lang-python';
import { PostgreSQL, sql } from '@codemirror/lang-sql';
import { HighlightStyle, bracketMatching, indentOnInput, syntaxHighlighting } from '@codemirror/language';
import { lintKeymap } from '@codemirror/lint';
import { highlightSelectionMatches, searchKeymap } from '@codemirror/search';
import { Compartment, EditorState, type Extension, Prec } from '@codemirror/state';
import { EditorView, drawSelection, highlightActiveLine, keymap, lineNumbers } from '@codemirror/view';
import { tags } from '@lezer/highlight';
import { type Ref, useEffect, useImperativeHandle, useRef, useState } from 'react';
import { type KnownTables, typeWords } from '../client/known-tables.ts';
import { sdkCompletion } from './sdk-completion.ts';
import { sdkLint } from './sdk-lint.ts';

type CodeLanguage = 'sql' | 'javascript' | 'python';

interface CodeProps {
  readonly label: string;
  readonly language: CodeLanguage;
  readonly value: string;
  readonly onChange: (text: string) => void;
  /** Ctrl-Enter, with the selection or everything. */
  readonly onRun?: (text: string) => void;
  /** For completion, and for marks at names that are not among them; null: not known. */
  readonly tables?: KnownTables | null;
  /** Where the caret is to stand, counted from 0; changes when an error names a place. */
  readonly caret?: number | null;
  /** It can be read and copied, and not changed. */
  readonly isReadOnly?: boolean;
  readonly handle?: Ref<CodeHandle>;
}

/** Lets a page read and select text in its editor. Positions are counted in UTF-16 units. */
export interface CodeHandle {
  readonly text: () => string;
  readonly selection: () => { readonly from: number; readonly to: number };
  /** Puts the caret there, or selects up to `to`. */
  readonly select: (from: number, to?: number) => void;
}

const highlighting = HighlightStyle.define([
  { tag: tags.keyword, color: 'var(--accent)' },
  { tag: [tags.string, tags.special(tags.string)], color: 'var(--good)' },
  { tag: [tags.number, tags.bool, tags.null], color: 'var(--warn)' },
  { tag: tags.comment, color: 'var(--muted)', fontStyle: 'italic' },
]);

const languageOf = (language: CodeLanguage, tables: KnownTables | null): Extension => {
  const lint = tables === null ? [] : sdkLint(tables);
  if (language === 'javascript')
    return [javascript({ typescript: true }), sdkCompletion('javascript', tables ?? {}), lint];
  if (language === 'python') return [python(), sdkCompletion('python', tables ?? {}), lint];
  const schema = Object.fromEntries(
    Object.entries(tables ?? {}).map(([name, columns]) => [
      name,
      columns.map((column) => ({ label: column.name, detail: typeWords(column), type: 'property' })),
    ]),
  );
  return sql({ dialect: PostgreSQL, schema, upperCaseKeywords: false });
};

const nonce = (): string => document.querySelector<HTMLMetaElement>('meta[name=csp-nonce]')?.content ?? '';

/** An editor of code. Tab indents; Escape and then Tab leaves it. */
export const Code = ({
  label,
  language,
  value,
  onChange,
  onRun,
  tables = null,
  caret = null,
  isReadOnly = false,
  handle,
}: CodeProps) => {
  const holder = useRef<HTMLDivElement>(null);
  const editor = useRef<EditorView | null>(null);
  const [languagePart] = useState(() => new Compartment());
  const handlers = useRef({ onChange, onRun });
  handlers.current = { onChange, onRun };

  useEffect(() => {
    if (holder.current === null) return undefined;
    const run = (view: EditorView): boolean => {
      const { from, to } = view.state.selection.main;
      const { state } = view;
      handlers.current.onRun?.(from === to ? state.doc.toString() : state.sliceDoc(from, to));
      return true;
    };
    const view = new EditorView({
      parent: holder.current,
      state: EditorState.create({
        doc: value,
        extensions: [
          EditorView.cspNonce.of(nonce()),
          EditorView.contentAttributes.of({ 'aria-label': label }),
          Prec.highest(keymap.of([{ key: 'Mod-Enter', run }])),
          EditorState.readOnly.of(isReadOnly),
          lineNumbers(),
          history(),
          drawSelection(),
          highlightActiveLine(),
          indentOnInput(),
          bracketMatching(),
          highlightSelectionMatches(),
          autocompletion(),
          syntaxHighlighting(highlighting),
          keymap.of([...defaultKeymap, ...historyKeymap, ...searchKeymap, ...lintKeymap, indentWithTab]),
          languagePart.of(languageOf(language, tables)),
          EditorView.updateListener.of(({ docChanged, state }) => {
            if (docChanged) handlers.current.onChange(state.doc.toString());
          }),
        ],
      }),
    });
    // Long code scrolls, and what scrolls must be reachable by keyboard.
    view.scrollDOM.tabIndex = 0;
    editor.current = view;
    return () => view.destroy();
    // Made once: what is typed, the selection and the focus stay when tables or the language change.
    // oxlint-disable-next-line react-hooks/exhaustive-deps
  }, []);

  useEffect(() => {
    editor.current?.dispatch({ effects: languagePart.reconfigure(languageOf(language, tables)) });
  }, [languagePart, language, tables]);
  useEffect(() => {
    const view = editor.current;
    if (view === null || view.state.doc.toString() === value) return;
    view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: value } });
  }, [value]);
  useEffect(() => {
    const view = editor.current;
    if (view === null || caret === null) return;
    view.dispatch({ selection: { anchor: Math.min(caret, view.state.doc.length) }, scrollIntoView: true });
    view.focus();
  }, [caret]);
  useImperativeHandle(handle, () => ({
    text: () => editor.current?.state.doc.toString() ?? value,
    selection: () => editor.current?.state.selection.main ?? { from: 0, to: 0 },
    select: (from, to = from) => {
      const view = editor.current;
      const end = view?.state.doc.length ?? 0;
      view?.dispatch({ selection: { anchor: Math.min(from, end), head: Math.min(to, end) }, scrollIntoView: true });
      view?.focus();
    },
  }));
  return <div className="code" ref={holder} />;
};
