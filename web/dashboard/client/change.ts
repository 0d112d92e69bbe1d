import { type QueryKey, type UseMutationResult, useMutation, useQueryClient } from '@tanstack/react-query';

interface ChangeOptions<Input, Answer> {
  /** The beginnings of the keys of what is stale afterwards. */
  readonly stale: readonly QueryKey[];
  readonly onDone?: (answer: Answer) => void;
  /** Called when what was stale was read again: a draft that is forgotten earlier shows for a moment what was before. */
  readonly onRead?: (input: Input) => void;
}

/** A write, after which what it made stale is read again. */
export const useChange = <Input, Answer>(
  work: (input: Input) => Promise<Answer>,
  { stale, onDone, onRead }: ChangeOptions<Input, Answer>,
): UseMutationResult<Answer, Error, Input> => {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: work,
    onSuccess: async (answer, input) => {
      onDone?.(answer);
      await Promise.all(stale.map((queryKey) => queries.invalidateQueries({ queryKey })));
      onRead?.(input);
    },
  });
};
