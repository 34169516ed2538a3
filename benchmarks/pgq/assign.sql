select pgq.assign_offsets('bench');
