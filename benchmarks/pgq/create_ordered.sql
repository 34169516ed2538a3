select pgq.create_queue('bench', ordered => true);
