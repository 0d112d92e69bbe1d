import { type QueryKey, type UseMutationResult, useMutation, useQueryClient } from '@tanstack/react-query';

interface ChangeOptions<Answer> {
  /** The beginnings of the keys of what is stale afterwards. */
  readonly stale: readonly QueryKey[];
  readonly onDone?: (answer: Answer) => void;
}

/** A write, after which what it made stale is read again. */
export const useChange = <Input, Answer>(
  work: (input: Input) => Promise<Answer>,
  { stale, onDone }: ChangeOptions<Answer>,
): UseMutationResult<Answer, Error, Input> => {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: work,
    onSuccess: async (answer) => {
      onDone?.(answer);
      await Promise.all(stale.map((queryKey) => queries.invalidateQueries({ queryKey })));
    },
  });
};
