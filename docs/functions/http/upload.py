"""
A form with a file: the fields are the payload, files are in `form_data()`.
"""

import hashlib


def handler(payload, sdk):
    upload = sdk.request.form_data().get('file')
    if upload is None:
        return sdk.Response({'message': 'The form has no file.'}, status=422)
    digest = hashlib.sha256(upload.content).hexdigest()
    row = sdk.as_caller.db.insert('uploads', {'name': upload.filename, 'title': payload.get('title'), 'sha256': digest})
    return sdk.Response({'id': row['id'], 'size': len(upload.content)}, status=201)
