import { GraphQLError } from 'graphql';
import type { ASTNode } from 'graphql';

/** A problem of a request, with a code for programs and, where there is one, the place in the document. */
export const failure = (code: string, message: string, node?: ASTNode, hint?: string): GraphQLError =>
  new GraphQLError(message, {
    extensions: { code, ...(hint !== undefined && { hint }) },
    ...(node && { nodes: node }),
  });
