import { GraphQLError } from 'graphql';
import type { ASTNode } from 'graphql';

/** What is wrong with a request, with a code for programs and, where there is one, the place in the document. */
export const failure = (code: string, message: string, node?: ASTNode): GraphQLError =>
  new GraphQLError(message, { extensions: { code }, ...(node && { nodes: node }) });
