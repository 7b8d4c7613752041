"""Who is a shard, and does it live?"""
