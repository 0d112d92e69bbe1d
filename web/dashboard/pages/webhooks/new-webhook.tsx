import { useMutation, useQueryClient } from '@tanstack/react-query';
import { call } from '../../client/api.ts';
import { useProject } from '../../client/project.ts';
import { Copyable } from '../../components/copyable.tsx';
import { Dialog } from '../../components/dialog.tsx';
import { Failure } from '../../components/failure.tsx';
import { WebhookFields, webhookOf } from './form.tsx';
import type { NewWebhook } from './shapes.ts';

/** Makes a webhook; its secret is shown here, and never again. */
export const NewWebhookDialog = ({ onClose }: { readonly onClose: () => void }) => {
  const { project } = useProject();
  const queries = useQueryClient();
  const make = useMutation({
    mutationFn: (body: NewWebhook) =>
      call('POST /projects/{project_id}/integrations/webhooks', { params: { project_id: project.id }, body }),
    onSuccess: () => queries.invalidateQueries({ queryKey: ['webhooks', project.id] }),
  });
  if (make.data !== undefined)
    return (
      <Dialog title="The secret of the webhook" onClose={onClose}>
        <p>It signs what is sent, and it is shown only now. Keep it where the receiver reads it.</p>
        <Copyable label="Secret" text={make.data.secret ?? ''} />
        <p className="row end">
          <button type="button" className="primary" onClick={onClose}>
            I have saved it
          </button>
        </p>
      </Dialog>
    );
  return (
    <Dialog title="New webhook" onClose={onClose}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          make.mutate(webhookOf(event.currentTarget));
        }}
      >
        <WebhookFields />
        {make.error && <Failure error={make.error} />}
        <p className="row end">
          <button type="button" onClick={onClose}>
            Cancel
          </button>
          <button type="submit" className="primary" disabled={make.isPending}>
            Create the webhook
          </button>
        </p>
      </form>
    </Dialog>
  );
};
