"""All engineered cases, each with its seed; those that were drawn keep theirs."""
import key_cases
import part_cases
import query_and_latent_cases
import value_cases


def cases():
    all_cases = value_cases.CASES + key_cases.CASES + query_and_latent_cases.CASES + part_cases.CASES
    return [{**c, "seed": c.get("seed", i + 1)} for i, c in enumerate(all_cases)]
