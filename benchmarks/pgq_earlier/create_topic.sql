select pgq.create_topic('bench', :partitions);
