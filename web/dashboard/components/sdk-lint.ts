import { ensureSyntaxTree, syntaxTree } from '@codemirror/language';
import { type Diagnostic, linter } from '@codemirror/lint';
import type { EditorState, Extension } from '@codemirror/state';
import type { KnownColumn, KnownTables } from '../client/known-tables.ts';
import { nearest } from '../client/nearest.ts';

/*
 * Warnings about names of tables and columns, and values of enums, that the project does not have: in the calls of
 * `sdk.db` whose names are written out. The tree is that of the editor's own parser; names that are computed are
 * left alone.
 */

type Tree = ReturnType<typeof syntaxTree>;
type SyntaxNode = Tree['topNode'];

interface Code {
  readonly tree: Tree;
  readonly text: (node: SyntaxNode) => string;
}

const methods = new Set(['select', 'insert', 'update', 'remove']);

const childrenOf = (node: SyntaxNode): SyntaxNode[] => {
  const found: SyntaxNode[] = [];
  for (let child = node.firstChild; child !== null; child = child.nextSibling) found.push(child);
  return found;
};

/** `sdk.db.insert` as its names; null for anything that is no such path. */
const pathOf = (node: SyntaxNode, { text }: Code): string[] | null => {
  if (node.name === 'VariableName') return [text(node)];
  const property = node.lastChild;
  if (node.name !== 'MemberExpression' || node.firstChild === null || property?.name !== 'PropertyName') return null;
  const owner = pathOf(node.firstChild, { text } as Code);
  return owner && [...owner, text(property)];
};

/** Names that the code imports: a `db` among them is somebody else's. */
const importedNames = ({ tree, text }: Code): Set<string> => {
  const names = new Set<string>();
  tree.iterate({
    enter: ({ node, name }) => {
      if (name !== 'ImportDeclaration' && name !== 'ImportStatement')
        return name === 'Script' || name === 'StatementGroup';
      node.cursor().iterate((part) => {
        if (part.name === 'VariableDefinition' || part.name === 'VariableName') names.add(text(part.node));
      });
      return false;
    },
  });
  return names;
};

const isDatabase = (owner: readonly string[], imported: ReadonlySet<string>): boolean => {
  const [root = ''] = owner;
  return !imported.has(root) && (owner.at(-1) === 'db' || (owner.length === 1 && root === 'tx'));
};

const plainText = /^(['"`])([^\\]*)\1$/su;

/** A text that is written out, and where it stands within its quotes. */
const textIn = (
  node: SyntaxNode | undefined,
  { text }: Code,
): { readonly value: string; readonly from: number } | null => {
  if (node === undefined || !['String', 'TemplateString'].includes(node.name) || node.firstChild !== null) return null;
  const value = plainText.exec(text(node))?.[2];
  return value === undefined ? null : { value, from: node.from + 1 };
};

const punctuation = new Set(['(', ')', ',', '[', ']', '{', '}', ':', 'LineComment', 'BlockComment', 'Comment']);
const partsOf = (node: SyntaxNode): SyntaxNode[] => childrenOf(node).filter(({ name }) => !punctuation.has(name));

/** Arguments by position; those by name follow them in Python. */
const argumentsOf = (call: SyntaxNode): SyntaxNode[] => {
  const list = call.getChild('ArgList');
  const parts = list === null ? [] : partsOf(list);
  const named = parts.findIndex(({ name }) => name === 'AssignOp');
  return named === -1 ? parts : parts.slice(0, named - 1);
};

interface Pair {
  readonly key: { readonly value: string; readonly from: number };
  readonly value: SyntaxNode | undefined;
}

const pairOfProperty = (property: SyntaxNode, code: Code): Pair[] => {
  const [first, value] = partsOf(property);
  if (first?.name === 'PropertyDefinition') return [{ key: { value: code.text(first), from: first.from }, value }];
  const key = textIn(first, code);
  return key === null || property.firstChild?.name === '[' ? [] : [{ key, value }];
};

/** In Python keys and values stand beside each other. */
const pairsOfDictionary = (dictionary: SyntaxNode, code: Code): Pair[] =>
  childrenOf(dictionary).flatMap((colon) => {
    if (colon.name !== ':') return [];
    const key = textIn(colon.prevSibling ?? undefined, code);
    return key === null ? [] : [{ key, value: colon.nextSibling ?? undefined }];
  });

const pairsOf = (row: SyntaxNode, code: Code): Pair[] => {
  if (row.name === 'ArrayExpression') return partsOf(row).flatMap((each) => pairsOf(each, code));
  if (row.name === 'DictionaryExpression') return pairsOfDictionary(row, code);
  if (row.name !== 'ObjectExpression') return [];
  return row.getChildren('Property').flatMap((property) => pairOfProperty(property, code));
};

const meant = (name: string, names: readonly string[]): string => {
  const near = nearest(name, names);
  return near === null ? '' : ` Did you mean ${near}?`;
};

const warning = (from: number, name: string, message: string): Diagnostic => ({
  from,
  to: from + Math.max(1, name.length),
  severity: 'warning',
  message,
});

const columnFaults = (
  { key, value }: Pair,
  table: string,
  columns: readonly KnownColumn[],
  code: Code,
): Diagnostic[] => {
  const column = columns.find(({ name }) => name === key.value);
  if (column === undefined) {
    const near = meant(
      key.value,
      columns.map(({ name }) => name),
    );
    return [warning(key.from, key.value, `${table} has no column ${key.value}.${near}`)];
  }
  const given = textIn(value, code);
  if (column.values === null || given === null || column.values.includes(given.value)) return [];
  return [
    warning(given.from, given.value, `${column.type} has no value ${given.value}.${meant(given.value, column.values)}`),
  ];
};

const isOwnSchema = (name: string, tables: KnownTables): boolean => {
  const [schema, rest] = name.split('.');
  return (
    rest === undefined || schema === 'public' || Object.keys(tables).some((known) => known.startsWith(`${schema}.`))
  );
};

const callFaults = (call: SyntaxNode, tables: KnownTables, code: Code): Diagnostic[] => {
  const [first, second] = argumentsOf(call);
  const table = textIn(first, code);
  if (table === null) return [];
  const name = table.value.replace(/^public\./, '');
  const columns = Object.hasOwn(tables, name) ? tables[name] : undefined;
  if (columns === undefined) {
    if (!isOwnSchema(table.value, tables)) return [];
    return [warning(table.from, table.value, `There is no table ${table.value}.${meant(name, Object.keys(tables))}`)];
  }
  const method = code.text(call.firstChild?.lastChild as SyntaxNode);
  if (second === undefined || (method !== 'insert' && method !== 'update')) return [];
  return pairsOf(second, code).flatMap((pair) => columnFaults(pair, name, columns, code));
};

/** Finds names in the code that the project does not have. */
export const unknownNames = (tree: Tree, source: string, tables: KnownTables): Diagnostic[] => {
  const code: Code = { tree, text: ({ from, to }) => source.slice(from, to) };
  const imported = importedNames(code);
  const found: Diagnostic[] = [];
  tree.iterate({
    enter: ({ node, name }) => {
      if (name !== 'CallExpression' || node.firstChild === null) return;
      const path = pathOf(node.firstChild, code);
      if (path === null || !methods.has(path.at(-1) ?? '') || !isDatabase(path.slice(0, -1), imported)) return;
      found.push(...callFaults(node, tables, code));
    },
  });
  return found;
};

/** A tree of the whole code takes some ms for as much as a function may have; what is not ready then comes later. */
const parseMs = 200;

const treeOf = (state: EditorState): Tree => ensureSyntaxTree(state, state.doc.length, parseMs) ?? syntaxTree(state);

/** Marks such names in the editor, a moment after the last key. */
export const sdkLint = (tables: KnownTables): Extension =>
  linter(({ state }) => unknownNames(treeOf(state), state.doc.toString(), tables));
