import { storedGrammar } from './expression-grammar.ts';
import { requestFunctions, storedFunctions } from './functions.ts';
import { type Grammar, type NodeRule, textIn } from './grammar.ts';
import { policyQueryGrammar } from './query-grammar.ts';
import { alterTable, renameFields, tableRule } from './schema-grammar.ts';

const plain = (fields: NodeRule['fields']): NodeRule => ({ fields });

const roles = new Set(['anon', 'authenticated']);
const switches = new Set(['AT_EnableRowSecurity', 'AT_ForceRowSecurity']);

const policy = {
  policy_name: 'value',
  table: { is: 'TargetTable' },
  roles: 'nodes',
  qual: 'nodes',
  with_check: 'nodes',
} as const;

/** CREATE POLICY, ALTER POLICY, and switching row-level security on. */
export const rlsGrammar: Grammar = {
  ...storedGrammar(new Set([...storedFunctions, ...requestFunctions])),
  ...policyQueryGrammar,
  CreatePolicyStmt: plain({ ...policy, cmd_name: 'value', permissive: 'value' }),
  AlterPolicyStmt: plain(policy),
  TargetTable: tableRule,
  RoleSpec: {
    fields: { roletype: 'value', rolename: 'value' },
    check: (spec, notes, byte) => {
      const isPublic = spec['roletype'] === 'ROLESPEC_PUBLIC';
      if (isPublic || (spec['roletype'] === 'ROLESPEC_CSTRING' && roles.has(textIn(spec, 'rolename')))) return;
      notes.refuse('role', 'A policy can be for public, anon and authenticated.', byte);
    },
  },
  RenameStmt: {
    fields: renameFields,
    check: ({ renameType }, notes, byte) => {
      if (renameType !== 'OBJECT_POLICY') notes.refuse('statement', 'Only policies can be renamed here.', byte);
    },
  },
  AlterTableStmt: alterTable,
  AlterTableCmd: {
    fields: { subtype: 'value', behavior: 'value' },
    check: (command, notes, byte) => {
      if (switches.has(textIn(command, 'subtype'))) return;
      notes.refuse('clause', 'Of ALTER TABLE only ENABLE and FORCE ROW LEVEL SECURITY are allowed here.', byte);
    },
  },
};
