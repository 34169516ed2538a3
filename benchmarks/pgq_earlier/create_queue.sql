select pgq.create_queue('bench');
