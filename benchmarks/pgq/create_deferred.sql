select pgq.create_topic('bench', partitions => :partitions, deferred => true);
